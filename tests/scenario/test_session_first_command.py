"""The first command of a session waits for the box: what is said to it meanwhile counts."""


def test_end_of_input_before_the_box_stands(daemon, session):
    running = daemon.background(session, "sh", "-c", "cat; echo ended", stdin=True,
                                timeout=0)["execution_id"]
    daemon.asked("POST", f"/v1/sessions/{session}/processes/{running}/stdin", b"",
                 query={"end": "true"})
    assert daemon.wait(running)["exit_code"] == 0
    assert daemon.output(running).body == b"ended\n"


def test_wait_for_a_command_of_another_session(daemon, session):
    """With its own session the id is enough; with another one named it is not found."""
    running = daemon.background(session, "true")["execution_id"]
    daemon.wait(running)
    said = daemon.post("/v1/tools/sandbox_wait", {"execution_id": running})
    assert said["exit_code"] == 0, said
    said = daemon.post("/v1/tools/sandbox_wait", {"execution_id": running}, session=session)
    assert said["exit_code"] == 0, said
    other = daemon.session()["id"]
    said = daemon.post("/v1/tools/sandbox_wait", {"execution_id": running}, session=other)
    assert said["success"] is False and said["code"] == "execution_not_found", said
    daemon.end(other)
