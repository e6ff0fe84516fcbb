# kernel.bash - the Bash kernel: runs the cells that come over descriptor 3 in one shell, which keeps
# variables, functions, folder and options between them. The protocol is in docs/kernels.md.
#
#   bash kernel.bash        (bash 4.4 or later and nothing else; only input given to a cell forks)
#
# How it works. Only an interactive shell can drop what it is doing and go on: at SIGINT it unwinds
# every function, loop, eval and sourced file, and is back at its prompt with all variables. So this
# file starts bash again as an interactive one without a terminal, and the kernel's loop is what such
# a shell does before each prompt: PROMPT_COMMAND. Its input is empty and never read. An `exit` in a
# cell, and a command that fails under `set -e`, are made such interrupts, with the status written
# down before. Cells run by `eval` outside of any function, else `declare` would make local variables.
# What bash prints on unwinding (an empty line) goes to /dev/null: only cells see the real 1 and 2.
#
# The redirections of that eval also undo what `exec` did to 0, 1 and 2 in the cell, and keep the kernel's
# descriptors, which bash moves away marked close-on-exec, from the commands that the cell starts.
if [[ $- != *i* ]]; then
    exec 250<&3 251>&1 252>&2 3<&-
    BASH_ENV='' ENV='' exec "$BASH" --noprofile --noediting --rcfile "${BASH_SOURCE[0]}" -i \
        </dev/null >/dev/null 2>&1
fi
builtin set +m +H +o history -E
builtin shopt -u checkwinsize
builtin unset HISTFILE MAILCHECK MAIL MAILPATH BASH_ENV ENV
PS1='' PS2='' BASH_ARGV0=bash

# All names of the kernel begin with __bailey_: a cell that changes them harms its own kernel only.
__bailey_pid=$BASHPID
__bailey_state=idle # running: a cell was begun, its end was not reported
__bailey_count=0    # cells so far
__bailey_options='' # which of the options e and u cells have set

# Records the status of a cell's `exit`, then returns to the prompt. In a subshell it is the normal exit.
exit() {
    __bailey_status=${1:-$?}
    if [[ $BASHPID != "$__bailey_pid" ]]; then
        builtin exit "$__bailey_status"
    fi
    if [[ ! $__bailey_status =~ ^-?[0-9]{1,18}$ ]]; then
        builtin printf 'bash: exit: %s: numeric argument required\n' "$__bailey_status" >&2
        __bailey_status=2
    fi
    __bailey_status=$((__bailey_status & 255))
    __bailey_line=${BASH_LINENO[-1]}
    builtin kill -INT "$BASHPID"
}

# The trap ERR, with status and line: records the line of the cell. Under `set -e` the cell ends here.
__bailey_failed() {
    if [[ $BASH_COMMAND != '\builtin eval "$__bailey_code"'* ]]; then
        __bailey_line=$2
    fi
    if ((${#BASH_LINENO[@]} > 1)); then
        __bailey_line=${BASH_LINENO[-1]}
    fi
    if [[ $- == *e* && $BASHPID == "$__bailey_pid" ]]; then
        __bailey_status=$1
        builtin kill -INT "$BASHPID"
    fi
}

# Reads exactly $1 bytes into the variable $2.
__bailey_bytes() {
    local LC_ALL=C
    builtin printf -v "$2" ''
    if (($1 > 0)); then
        IFS='' builtin read -r -u 250 -N "$1" "$2" || builtin exit 0
    fi
}

# Reads $1 bytes of NAME=VALUE strings, each ended by a NUL, into __bailey_env.
__bailey_pairs() {
    local LC_ALL=C left=$1 pair
    __bailey_env=()
    while ((left > 0)); do
        IFS='' builtin read -r -u 250 -d '' pair || builtin exit 0
        left=$((left - ${#pair} - 1))
        if [[ $pair =~ ^[A-Za-z_][A-Za-z0-9_]*= && $pair != __bailey_* && $pair != PROMPT_COMMAND=* ]]; then
            __bailey_env+=("$pair")
        fi
    done
}

# Sets the variables of __bailey_env and stores there the old values to restore; an unset name has no "=".
__bailey_exchange() {
    local __bailey_pair __bailey_name __bailey_old __bailey_i
    for __bailey_i in "${!__bailey_env[@]}"; do
        __bailey_pair=${__bailey_env[__bailey_i]}
        __bailey_name=${__bailey_pair%%=*}
        __bailey_old=$__bailey_name${!__bailey_name+=${!__bailey_name}}
        if [[ $__bailey_pair == *=* ]]; then
            builtin declare -gx "$__bailey_pair"
        else
            builtin unset "$__bailey_name"
        fi
        __bailey_env[__bailey_i]=$__bailey_old
    done
}

# Reports the end of the cell.
__bailey_tell() {
    local LC_ALL=C IFS=' ' name=ExitStatus value=${__bailey_status:=0} where
    if [[ $value == interrupted ]]; then
        name=Interrupted value='the cell was interrupted'
    fi
    if [[ $value != 0 ]]; then
        where="Cell In[$__bailey_count]${__bailey_line:+, line $__bailey_line}"
        builtin printf '{"type":"error","name":"%s","value":"%s","traceback":"%s: %s %s"}\nend %s 1\n' \
            "$name" "$value" "$where" "$name" "$value" "$__bailey_id" >&250
    else
        builtin printf 'end %s 0\n' "$__bailey_id" >&250
    fi
}

# Called after a cell, if one was begun.
__bailey_finish() {
    if [[ $__bailey_state == running ]]; then
        __bailey_state=idle
        __bailey_exchange
        __bailey_tell
    fi
}

# Waits for the next cell and reads it; without one the kernel ends.
__bailey_next() {
    local word flags code input env
    IFS=' ' builtin read -r -u 250 word __bailey_id flags code input env || builtin exit 0
    if [[ $word != cell || ! $__bailey_id$code$input$env =~ ^[0-9]+$ ]]; then
        builtin exit 1
    fi
    __bailey_bytes "$code" __bailey_code
    __bailey_code="{ :; $__bailey_code"$'\n\n}'
    __bailey_bytes "$input" __bailey_input
    __bailey_pairs "$env"
    __bailey_exchange
    __bailey_has_input=''
    if [[ $flags == *i* ]]; then
        __bailey_has_input=1
    fi
    __bailey_state=running __bailey_status='' __bailey_line=''
    __bailey_count=$((__bailey_count + 1))
}

# SIGINT counts only while a cell runs. `break` and `continue` of a cell may end or shorten the loop:
# what is done at the end of a cell is therefore done before the next one, and the last lines begin
# anew. After an interrupt no status was recorded. A cell is one group, so that an error of
# expansion ends all of it, as in a script. In one line, so that the lines of a cell count from 1.
__bailey_loop='
: "${__bailey_status:=interrupted}";
while :; do
    \builtin trap "" INT;
    [[ $- != *e* ]] || __bailey_options+=e;
    [[ $- != *u* ]] || __bailey_options+=u;
    \builtin set +eu;
    __bailey_finish;
    __bailey_next;
    \builtin trap "__bailey_failed \$? \$LINENO" ERR;
    [[ -z $__bailey_options ]] || \builtin set "-$__bailey_options";
    __bailey_options=;
    \builtin trap - INT;
    if [[ -n $__bailey_has_input ]]; then
        \builtin eval "$__bailey_code" < <(\builtin printf %s "$__bailey_input")
            >&251 2>&252 250>&- 251>&- 252>&-;
    else
        \builtin eval "$__bailey_code" </dev/null >&251 2>&252 250>&- 251>&- 252>&-;
    fi;
    : "${__bailey_status:=$?}";
done;
: "${__bailey_status:=0}";
\builtin trap - INT;
\builtin kill -INT "$BASHPID"'
PROMPT_COMMAND=$'\n'${__bailey_loop//$'\n'/ }
builtin unset __bailey_loop
builtin readonly PROMPT_COMMAND
