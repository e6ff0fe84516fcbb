"""
Sessions behind another wall: scenarios of tests/scenario, which run there with local boxes, as they
are, with every other runtime of $BAILEY_RUNTIMES. A row is a file and what of it is promised of every
runtime; what is not in it is about what only the local runtime has (its zygotes, layers, cgroups),
about doors before any wall, or the same promise once more.
"""
import importlib
import sys
from pathlib import Path

import pytest

import runtimes
import serve

PROMISED = {
    "test_session_commands": """
        test_the_one_result test_working_folder_and_state_stay test_standard_input
        test_a_timeout_in_seconds test_a_signal_is_a_fact test_a_program_that_is_not_there
        test_several_commands_at_once test_background_list_signal
        test_a_signal_that_is_faster_than_the_program
        test_output_is_read_again_from_an_offset test_more_output_than_a_result_holds_is_kept
        test_standard_input_later test_what_comes_before_the_box_is_there_is_not_lost
        test_a_terminal_with_a_size_and_a_resize test_control_c_reaches_what_runs_in_a_terminal
        test_exec_as_a_stream test_a_lost_stream_is_taken_up_where_it_broke
        test_a_client_that_leaves_ends_what_it_alone_waited_for test_the_command_line_has_them
        test_the_command_lines_status test_who_a_command_leaves_behind_may_go_on_writing""",
    "test_session_files": """
        test_write_and_read test_an_empty_file test_stat test_new_refuses_what_is_there
        test_append_by_offset test_fifty_megabytes_up_and_down
        test_an_upload_that_breaks_off_changes_nothing test_list_and_its_depth
        test_mkdir_makes_the_folders_above test_move test_move_from_one_folder_of_the_box_to_another
        test_delete test_chmod test_watch test_the_disk_limit_is_said
        test_the_command_line_copies_both_ways""",
    "test_session_life": """
        test_a_session_shows_all_that_is_promised test_an_ended_session_tells_why_and_when
        test_the_environment_of_a_session_and_of_a_command test_two_sessions_never_see_each_other
        test_an_idle_session_ends test_a_restart_of_the_daemon_ends_sessions_and_says_so
        test_work_that_does_not_end_in_its_grace_time_is_killed""",
    "test_three_tools_work": """
        test_hello_world test_data_loaded_from_tmp_data test_buggy_code_is_fixed_by_an_edit
        test_an_edit_works_on_bytes_and_keeps_mode_and_owner test_several_outputs
        test_background_and_wait test_run_python_code_is_a_fresh_box
        test_run_code_is_in_the_sessions_box test_run_code_keeps_variables_in_a_session""",
    "test_datasets_outputs": """
        test_a_dataset_given_later_just_appears test_text_is_saved_by_its_relative_name
        test_only_what_changed_is_copied_again test_links_and_special_files_are_skipped_and_reported
        test_a_name_cannot_leave_the_folder test_an_image_is_announced
        test_outputs_of_the_plain_exec test_outputs_outlive_their_session""",
    "test_streaming": """
        test_output_comes_while_the_program_still_runs test_every_byte_passes_a_pipe_unchanged
        test_a_megabyte_passes_whole_in_both_directions test_a_program_cannot_forge_the_result""",
    "test_websocket_terminal": """
        test_a_shell test_lost_and_back_by_execution_and_offset test_hanging_up_ends_it""",
}


@pytest.fixture(scope="module", params=runtimes.OTHERS)
def runtime(request):
    yield from runtimes.surround(request, request.param)


@pytest.fixture(scope="module", autouse=True)
def daemon(runtime):
    with serve.Daemon() as running:
        yield running


@pytest.fixture
def session(daemon):
    made = daemon.session()["id"]
    yield made
    daemon.end(made)


@pytest.fixture(params=["rest"])
def tools(request, daemon, session):
    return serve.Tools(daemon, session, request.param)


def take_over(scenarios):
    """The tests become this file's, with its fixtures."""
    here = sys.modules[__name__]
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scenario"))
    for file, names in scenarios.items():
        pytest.register_assert_rewrite(file)
        module = importlib.import_module(file)
        for name in names.split():
            assert not hasattr(here, name), f"{name} is in two files"
            setattr(here, name, getattr(module, name))


take_over(PROMISED)
