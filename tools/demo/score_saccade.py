#!/usr/bin/env python3
"""Asks the saccade command every question of a questions.jsonl (made by draw.py) and prints the share of exact answers.

    tools/demo/draw.py /tmp/fresh --pictures 500 --videos 100 --seed 12345
    tools/demo/score_saccade.py /tmp/fresh/questions.jsonl --out /tmp/saccade.jsonl

One process a question, so decoding, sampling, tokenizer and command are all part of what is scored. Answers are appended to
--out as they come; a run that was stopped goes on where it left off. --against FILE compares with the answers of
score_transformers.py on the same questions. Options of saccade ask may follow after --, e.g. -- -t 1."""
import argparse
import collections
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLUMNS = [1, 4, 16, 64, 128, 256]  # upper ends of the table's columns


def ask(binary, model, folder, row, extra):
    media = ['--image' if row['kind'] == 'picture' else '--video', os.path.join(folder, row['file'])]
    command = [binary, 'ask', '-q', '--json', '-m', model, *media, *extra, row['question']]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return {'text': '', 'error': done.stderr.strip()}
    return json.loads(done.stdout)


def load(path):
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


def table(rows):
    """Share of right answers (number asked) by question and number of frames, as lines of a Markdown table."""
    cells = collections.defaultdict(lambda: [0, 0])
    for r in rows:
        column = next(c for c in COLUMNS if r['n_frames'] <= c)
        for key in ((r['question_type'], column), (r['question_type'], None), ('all', column), ('all', None)):
            cells[key][0] += r['right']
            cells[key][1] += 1
    def cell(t, column):
        right, asked = cells.get((t, column), (0, 0))
        return f'{right / asked:.3f} ({asked})' if asked else ''
    lines = ['| question | ' + ' | '.join('picture' if c == 1 else f'to {c} frames' for c in COLUMNS) + ' | all |',
             '|---' * (len(COLUMNS) + 2) + '|']
    for t in sorted({r['question_type'] for r in rows}) + ['all']:
        lines.append(f'| {t} | ' + ' | '.join(cell(t, c) for c in [*COLUMNS, None]) + ' |')
    return lines


def compare(rows, others):
    """The questions that both were asked, in whatever order."""
    theirs = {(r['file'], r['question']): r for r in others}
    pairs = [(r, theirs[r['file'], r['question']]) for r in rows if (r['file'], r['question']) in theirs]
    if not pairs:
        print('no question in common')
        return
    same = sum(x['response'] == y['response'] for x, y in pairs)
    share = [100 * sum(r['right'] for r in side) / len(pairs) for side in zip(*pairs)]
    print(f'saccade {share[0]:.2f} %, transformers {share[1]:.2f} %, same answer to {same} of {len(pairs)}')


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('questions', help='questions.jsonl of draw.py; files are beside it')
    p.add_argument('--out', required=True, help='answers, one JSON line each; resumed when it exists')
    p.add_argument('--binary', default=os.path.join(ROOT, 'build/release/saccade'))
    p.add_argument('--model', default=os.path.join(ROOT, 'models/demo'))
    p.add_argument('--against', help='answers of score_transformers.py to compare with')
    p.add_argument('--limit', type=int, default=0, help='only the first N questions')
    end = sys.argv.index('--') if '--' in sys.argv else len(sys.argv)
    a, extra = p.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    folder, questions = os.path.dirname(os.path.abspath(a.questions)), load(a.questions)
    questions = questions[:a.limit] if a.limit else questions
    rows = load(a.out) if os.path.exists(a.out) else []
    start = time.time()
    with open(a.out, 'a') as out:
        for i in range(len(rows), len(questions)):
            q = questions[i]
            got = ask(a.binary, a.model, folder, q, extra)
            row = dict(q, response=got['text'].strip(), right=got['text'].strip() == q['answer'])
            if 'error' in got:
                row['error'] = got['error']
            rows.append(row)
            out.write(json.dumps(row) + '\n')
            out.flush()
            if sys.stderr.isatty() or i % 50 == 49:
                print(f'\r{i + 1}/{len(questions)} {time.time() - start:.0f} s', end='', file=sys.stderr)
    print(file=sys.stderr)
    print('\n'.join(table(rows)))
    errors = [r for r in rows if 'error' in r]
    if errors:
        print(f'{len(errors)} questions ended in an error, the first: {errors[0]["file"]}: {errors[0]["error"]}')
    if a.against:
        compare(rows, load(a.against))
    return 1 if errors else 0


if __name__ == '__main__':
    sys.exit(main())
