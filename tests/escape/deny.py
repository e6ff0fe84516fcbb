"""deny.py - runs a command on a kernel that refuses some things: deny.py WHAT[,WHAT] -- ARGV...

Besides ../denier.c, for calls that our own filter also needs: a kernel without Landlock
answers ENOSYS, and one without seccomp EINVAL. The filter stays on everything the command starts.
"""
import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 38, 22

# Numbers: x86-64, aarch64 (those from 424 on are the same everywhere).
NUMBERS = {
    "x86_64": {"prctl": 157, "seccomp": 317},
    "aarch64": {"prctl": 167, "seccomp": 277},
}[os.uname().machine]
LANDLOCK_CREATE = 444

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


def instruction(code, k, yes=0, no=0):
    return struct.pack("HBBI", code, yes, no, k)


def refuse(number, error):
    return [instruction(LOAD, 0), instruction(EQUAL, number, 0, 1),
            instruction(RETURN, ERRNO | error)]


def refuse_if(number, value, error):
    """Only where the first argument's low half is the value."""
    return [instruction(LOAD, 0), instruction(EQUAL, number, 0, 3), instruction(LOAD, 16),
            instruction(EQUAL, value, 0, 1), instruction(RETURN, ERRNO | error)]


REFUSALS = {
    "landlock": refuse(LANDLOCK_CREATE, errno.ENOSYS),
    "seccomp": refuse(NUMBERS["seccomp"], errno.ENOSYS)
    + refuse_if(NUMBERS["prctl"], PR_SET_SECCOMP, errno.EINVAL),
}


def install(what):
    code = b"".join(i for name in what for i in REFUSALS[name])
    code += instruction(RETURN, ALLOW)
    program = ctypes.create_string_buffer(code, len(code))
    fprog = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    if libc.prctl(PR_SET_SECCOMP, 2, ctypes.addressof(fprog), 0, 0) == 0:
        return
    # Without CAP_SYS_ADMIN (an ordinary user, root of a container) only together with this.
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit("deny.py: no_new_privs: " + os.strerror(ctypes.get_errno()))
    if libc.prctl(PR_SET_SECCOMP, 2, ctypes.addressof(fprog), 0, 0) != 0:
        sys.exit("deny.py: filter: " + os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    install(sys.argv[1].split(","))
    os.execv(sys.argv[3], sys.argv[3:])
