#!/usr/bin/env python3
"""A caption job by a real Slurm array of four on this machine: samples/captions.sbatch as it is, merged, must give the bytes of a
single run.

    SACCADE=build/release/saccade tools/check_slurm.py [--pictures 60]      (packages slurm-wlm, slurm-wlm-basic-plugins; as root)

The cluster is a controller and one node, started for this with a configuration of their own, and ended afterwards."""
import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SACCADE = os.path.abspath(os.environ.get("SACCADE", "build/release/saccade"))
CONFIG = """
ClusterName=check
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
NodeName={host} NodeAddr=127.0.0.1 CPUs={n_cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def free_ports(n):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


@contextlib.contextmanager
def cluster(folder):
    """Slurm's environment while a controller and a node run."""
    controller_port, node_port = free_ports(2)
    host, env = socket.gethostname().split(".")[0], dict(os.environ, SLURM_CONF=f"{folder}/slurm.conf")
    env = {k: v for k, v in env.items() if not k.startswith("SLURM_") or k == "SLURM_CONF"}
    for name in "state", "spool":
        os.mkdir(Path(folder, name))
    Path(folder, "slurm.conf").write_text(CONFIG.format(folder=folder, host=host, controller_port=controller_port,
                                                        node_port=node_port, n_cpus=os.cpu_count()), encoding="ascii")
    daemons = []
    try:
        for command in ["slurmctld", "-D"], ["slurmd", "-D", "-N", host]:
            log = open(Path(folder, command[0] + ".log"), "wb")
            daemons.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
            log.close()
        wait_for_node(folder, env, daemons)
        yield env
    finally:
        for d in reversed(daemons):
            d.terminate()
            d.wait()


def wait_for_node(folder, env, daemons, seconds=120):
    end, state = time.monotonic() + seconds, ""
    while "idle" not in state:
        if time.monotonic() > end or any(d.poll() is not None for d in daemons):
            logs = "".join(p.read_text(errors="replace")[-2000:] for p in Path(folder).glob("*.log"))
            raise SystemExit(f"Slurm does not start; the node is {state.strip()!r}:\n{logs}")
        time.sleep(0.2)
        state = subprocess.run(["sinfo", "-h", "-o", "%t"], env=env, capture_output=True, text=True, check=False).stdout


def draw_input(folder, n_pictures):
    """Copies of the samples' pictures and of some videos."""
    pictures = sorted(ROOT.glob("samples/picture*"))
    os.mkdir(folder)
    for i in range(n_pictures):
        source = pictures[i % len(pictures)]
        shutil.copy(source, Path(folder, f"picture{i:04d}{source.suffix}"))
    for source in sorted(ROOT.glob("samples/drawn/*_4.mp4")):
        shutil.copy(source, folder)


def caption(*arguments):
    run = subprocess.run([SACCADE, "caption", *map(str, arguments), "-q"], cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    if run.returncode:
        raise SystemExit(f"saccade caption ended with {run.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pictures", type=int, default=60)
    n_pictures = parser.parse_args().pictures
    with tempfile.TemporaryDirectory() as folder:
        items, whole, out = (Path(folder, name) for name in ("items", "whole", "out"))
        draw_input(items, n_pictures)
        caption(items, "--out", whole)
        with cluster(folder) as env:
            began = time.monotonic()
            job = ["sbatch", "--wait", "--array=0-3", "--cpus-per-task=1", f"--output={folder}/task-%a.txt", f"--chdir={ROOT}",
                   "samples/captions.sbatch", items, "--out", out, "--threads", "1"]
            run = subprocess.run([str(a) for a in job], cwd=ROOT, env=dict(env, SACCADE=SACCADE), check=False)
            took = time.monotonic() - began
        if run.returncode:
            print("".join(p.read_text() for p in sorted(Path(folder).glob("task-*.txt"))))
            raise SystemExit(f"the array ended with {run.returncode}")
        shards = [len((p / "journal.jsonl").read_bytes().splitlines()) - 1 for p in sorted(out.glob("shard-*-of-00004"))]
        caption("merge", out)
        single, merged = ((p / "captions.jsonl").read_bytes() for p in (whole, out))
    same = single == merged and len(shards) == 4 and all(shards)
    print(f"{len(single.splitlines())} items; a Slurm array of 4 in {took:.0f} s: {shards} records; merged, the result is "
          f"{'equal to' if single == merged else 'NOT'} that of a single run ({len(single)} bytes)")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
