#!/usr/bin/env python3
"""public_sets.py FOLDER: fetch questions that others published, and write their documents and tables into FOLDER.

XQuAD (Wikipedia, English and German; half of its articles with their questions, and the questions about the other half, which
no document answers) becomes `xquad-0`, `xquad-0.tsv`, `xquad-1` and `xquad-1.tsv`; the E-Manual questions about a phone and
a television become `manuals` and `manuals.tsv`; every fourth question of COVID-QA, about scientific articles, becomes `articles` and
`articles.tsv`. MIRROR may name a folder of git repositories (OWNER+NAME/repo), as for fetch.sh.
"""

import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

XQUAD = "deepmind/xquad", "60cac411649156efb6aab9dd4c9cde787a2c0345"
MANUALS = "abhi1nandy2/EMNLP-2021-Findings", "2ea1edfdaf0f4fa09ed89f46d0ea1d46b136ff92"
ARTICLES = "deepset-ai/COVID-QA", "fb2eb5e249618457e5359806601086c635c8eb8f"
DIGESTS = {
    "data/question-answering/200423_covidQA.json": "ab310b4e39f726e087c8fa3d1787c73771dacddc584977204ebe3cc889ee1264",
    "xquad.en.json": "e4c57d1c9143aaa1c5d265ba5987a65f4e69528d2a98f29d6e75019b10344f29",
    "xquad.de.json": "990b5d746746ed65ed4702ea5f35f99ffa4e2f1c390c07d003642acd937916f9",
    "data/s10_manual_corpus.json": "e234c085fc0f65b05e684eadd4df921d4db373386100ae49e95bd03c11a4abf3",
    "data/s10_50_questions.csv": "0d1bf8f724556b632d754bdc81b3af12b83598d61091c19d74bdbfb3c33b2911",
    "data/smart_tv_remote_manual_corpus.json": "381b0143a4b39f7218e94a8a1dc571524f5808c497c8fdfea58ef8e6edae43d9",
    "data/smart_tv_remote_50_questions.csv": "0eb6df5f9a9f8d827979a895ac838f88ae2d50a9a6a2af069ea9146f75f732a4",
}
HEADER = "part\tlanguage\tfile\tpassage\tquestion"
# The letters around a short answer that tell its place from others.
AROUND = 12
SHORT = 20
# The beginning of a long answer that tells its place, and the step between the questions that are asked.
LONG = 160
STEP = 4


def fetched(source, path):
    """Return a file of a repository, from the mirror or from GitHub."""
    repository, commit = source
    mirror = Path(os.environ.get("MIRROR", "")) / repository.replace("/", "+") / "repo"
    shown = subprocess.run(["git", "-C", mirror, "show", f"{commit}:{path}"], capture_output=True) if mirror.is_dir() else None
    if shown and shown.returncode == 0:
        content = shown.stdout
    else:
        with urllib.request.urlopen(f"https://raw.githubusercontent.com/{repository}/{commit}/{path}", timeout=60) as response:
            content = response.read()
    if hashlib.sha256(content).hexdigest() != DIGESTS[path]:
        sys.exit(f"not the file that was measured: {repository} {path}")
    return content.decode()


def field(text):
    return " ".join(text.split())


def letters(text):
    return "".join(c for c in text.lower() if c.isalnum())


def with_surroundings(context, answer):
    """Return an answer, a short one with the whole words around it."""
    start = answer["answer_start"]
    end = start + len(answer["text"])
    if len(answer["text"]) < SHORT:
        before = context[max(0, start - AROUND) : start]
        after = context[end : end + AROUND]
        return field(before.partition(" ")[2] + answer["text"] + after.rpartition(" ")[0])
    return field(answer["text"])


def xquad(folder):
    rows = [[HEADER], [HEADER]]
    for language in ["en", "de"]:
        for number, article in enumerate(json.loads(fetched(XQUAD, f"xquad.{language}.json"))["data"]):
            half = number % 2
            name = f"{number:02}.{language}.md"
            texts = folder / f"xquad-{half}"
            texts.mkdir(exist_ok=True)
            contexts = [paragraph["context"].strip() for paragraph in article["paragraphs"]]
            title = article.get("title", "").replace("_", " ")
            (texts / name).write_text("\n\n".join([f"# {title}", *contexts]) + "\n")
            for paragraph in article["paragraphs"]:
                for asked in paragraph["qas"]:
                    passage = with_surroundings(paragraph["context"], asked["answers"][0])
                    question = field(asked["question"])
                    rows[half].append(f"apart\t{language}\t{name}\t{passage}\t{question}")
                    rows[1 - half].append(f"apart\t{language}\t-\t-\t{question}")
    for half in [0, 1]:
        (folder / f"xquad-{half}.tsv").write_text("\n".join(rows[half]) + "\n")


def manuals(folder):
    rows = [HEADER]
    texts = folder / "manuals"
    texts.mkdir(exist_ok=True)
    for manual in ["s10", "smart_tv_remote"]:
        lines = []
        for section in json.loads(fetched(MANUALS, f"data/{manual}_manual_corpus.json")).values():
            lines += [f"## {section['title'].strip()}\n"]
            lines += [line.strip() for line in section["text"] if line.strip() != section["title"].strip()] + [""]
        text = "\n".join(lines)
        (texts / f"{manual}.md").write_text(text)
        for asked in csv.DictReader(io.StringIO(fetched(MANUALS, f"data/{manual}_50_questions.csv"))):
            sentences = map(field, re.split(r"(?<=[.:?!])\s*(?=[A-Z0-9])", asked["answer"]))
            stand = [one for one in sentences if len(letters(one)) >= 18 and letters(one) in letters(text)]
            rows.append(f"apart\ten\t{manual}.md\t{' || '.join(stand)}\t{field(asked['question'])}")
    (folder / "manuals.tsv").write_text("\n".join(rows) + "\n")


def articles(folder):
    rows = [HEADER]
    texts = folder / "articles"
    texts.mkdir(exist_ok=True)
    number = 0
    for article in json.loads(fetched(ARTICLES, "data/question-answering/200423_covidQA.json"))["data"]:
        for paragraph in article["paragraphs"]:
            name = f"{paragraph['document_id']}.txt"
            (texts / name).write_text(paragraph["context"])
            for asked in paragraph["qas"]:
                number += 1
                if number % STEP == 0:
                    passage = with_surroundings(paragraph["context"], asked["answers"][0])
                    passage = passage if len(passage) <= LONG else passage[:LONG].rpartition(" ")[0]
                    rows.append(f"apart\ten\t{name}\t{passage}\t{field(asked['question'])}")
    (folder / "articles.tsv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    xquad(target)
    manuals(target)
    articles(target)
