"""The bundled target through the audit and through a server, as a newcomer starts them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline import zoo

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("tiny-native" not in zoo.targets(), reason="the weights of tiny-native are not committed yet"),
]
COMMAND = [sys.executable, "-m", "paceline.cli"]


@pytest.mark.parametrize("drafter", ["lookup", "lm"])
def test_audit(tmp_path: Path, drafter: str) -> None:
    if drafter not in ("lookup", *zoo.drafters("tiny-native")):
        pytest.skip(f"no bundled drafter {drafter}")
    page = tmp_path / "audit.html"
    done = subprocess.run(
        [*COMMAND, "audit", "--target", "tiny-native", "--drafter", drafter, "--tasks", "mmt,long", "--limit", "1",
         "--samples", "32", "--law-prompts", "1", "--max-new-tokens", "32", "--json", "--quiet", "--html", str(page)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(done.stdout)
    assert record["verdict"] == "lossless"
    assert all({"name", "outcome", "says", "figures", "divergences"} <= set(check) for check in record["checks"])
    assert page.stat().st_size > 1000


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        pytest.importorskip(package, reason="the extra `serve` is not installed")
    command = [*COMMAND, "serve", "--target", "tiny-native", "--drafter", "lookup", "--port", "0", "--threads", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        found = re.search(r"http://\S+:\d+", told)
        try:
            assert found, told + process.stderr.read()
            yield found[0]
        finally:
            process.terminate()
    assert process.returncode == 0


def test_a_question_about_a_picture(url: str) -> None:
    openai = pytest.importorskip("openai", reason="the extra `dev` is not installed")
    import base64

    from paceline.cli.demo import PICTURE, PROMPT

    client: Any = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    picture = "data:image/png;base64," + base64.b64encode(Path(PICTURE).read_bytes()).decode()
    parts = [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": PROMPT}]
    ask = {"model": "tiny-native", "messages": [{"role": "user", "content": parts}], "temperature": 0, "max_tokens": 40}
    drafted = client.chat.completions.create(**ask)
    plain = client.chat.completions.create(**ask, extra_body={"drafter": "none"})
    assert drafted.choices[0].message.content == plain.choices[0].message.content
    assert drafted.usage.speculative_decoding["tau"] >= plain.usage.speculative_decoding["tau"] == 1.0
