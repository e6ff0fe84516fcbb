/*
 * guest_stage.h - the stages from a fork of the warden to the guest's program, by number and name.
 *
 * sandbox/ runs them in this order, the number of the one that failed is sent in a NOEXEC frame,
 * and runtime/ turns it into text: none of the three may include the others.
 *
 * Runs in: box child, zygote, box, broker, hosts, commands
 */
#ifndef BAILEY_SANDBOX_GUEST_STAGE_H
#define BAILEY_SANDBOX_GUEST_STAGE_H

enum guest_stage {
    GUEST_STAGE_STDIO,
    GUEST_STAGE_RLIMITS,
    GUEST_STAGE_IDS,
    GUEST_STAGE_CAPS,
    GUEST_STAGE_FOLDER,
    GUEST_STAGE_LANDLOCK,
    GUEST_STAGE_FILTER,
    GUEST_STAGE_EXEC,
    _GUEST_STAGE_MAX,
};

const char *guest_stage_name(unsigned stage); /* static; "unknown stage" for other numbers */

#endif
