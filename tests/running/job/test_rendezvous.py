from __future__ import annotations

import threading

from harness.running.job.rendezvous import Meeting


def test_what_one_node_says_the_others_read(tmp_path):
    lead, other = (Meeting.of(tmp_path, "71", 0) for _ in range(2))
    assert other.read("head.json") is None
    other.say("joined.1")
    assert not lead.folder.exists(), "before and after the meeting nobody listens"
    lead.open()
    lead.say("head.json", {"address": "10.0.0.1:7"})
    assert other.read("head.json") == {"address": "10.0.0.1:7"}
    assert lead.folder.stat().st_mode & 0o077 == 0
    other.say("failed.1", {"node": "n2", "cause": "node failure", "reason": "gone"})
    assert [failure["node"] for failure in lead.failures()] == ["n2"]
    assert lead.wait_for({"failed.1"}, 0)
    assert not lead.wait_for({"left.1"}, 0)


def test_attempts_of_a_job_do_not_read_each_others_files(tmp_path):
    first, second = Meeting.of(tmp_path, "71", 0), Meeting.of(tmp_path, "71", 1)
    first.open()
    first.say("stop")
    second.open()
    assert second.names() == set()
    second.clear_others()
    assert not first.folder.exists()
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_nodes_that_were_never_told_where_to_join_hear_of_the_end(tmp_path):
    lead, other = (Meeting.of(tmp_path, "71", 0) for _ in range(2))
    lead.open()
    end = threading.Thread(target=lead.dismiss, args=(2,))
    end.start()
    assert other.wait_for({"stop"}, 5), "it is there until they have left"
    other.say("left.1")
    end.join(5)
    assert not lead.folder.exists()


def test_nodes_that_have_left_already_are_not_waited_for(tmp_path):
    lead = Meeting.of(tmp_path, "71", 0)
    lead.open()
    lead.say("head.json", {"address": ""})
    lead.dismiss(2)
    assert list(tmp_path.iterdir()) == []
