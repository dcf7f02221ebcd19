#!/usr/bin/env python3
"""The server's page in headless Chromium: a sample video is dropped on it and asked about; the answer and the overlay are checked.

    SACCADE=build/release/saccade tools/check_page.py page.png      (packages chromium-driver; pip install selenium)"""
import base64
import sys
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/serve"))
from server import Server, questions  # noqa: E402

DROP = """
const bytes = Uint8Array.from(atob(arguments[1]), c => c.charCodeAt(0)), data = new DataTransfer();
data.items.add(new File([bytes], "clip.mp4", {type: "video/mp4"}));
for (const name of ["dragenter", "dragover", "drop"])
  arguments[0].dispatchEvent(new DragEvent(name, {dataTransfer: data, bubbles: true, cancelable: true}));
"""


def main():
    row = next(r for r in questions() if r["n_frames"] == 16)
    options = webdriver.ChromeOptions()
    for a in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1000,1100"):
        options.add_argument(a)
    with Server("--prefill", "zipvl:min=0") as server:
        page = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        try:
            page.get(server.url + "/")
            page.execute_script(DROP, page.find_element(By.ID, "drop"), base64.b64encode(Path(row["file"]).read_bytes()).decode())
            page.find_element(By.ID, "question").send_keys(row["question"])
            page.find_element(By.ID, "ask").click()
            figures = []
            for _ in range(300):
                time.sleep(0.2)
                figures = page.find_elements(By.TAG_NAME, "figure")
                if page.find_element(By.ID, "ask").text == "Ask" and len(figures) == row["n_frames"]:
                    break
            answer = page.find_element(By.ID, "answer").text
            page.execute_script("window.scrollTo(0, 0)")
            page.save_screenshot(sys.argv[1])
            print(f"asked {row['question']!r}: {answer!r}, right is {row['answer']!r}; {len(figures)} frames of {row['n_frames']} drawn")
            return 0 if answer == row["answer"] and len(figures) == row["n_frames"] else 1
        finally:
            page.quit()


if __name__ == "__main__":
    sys.exit(main())
