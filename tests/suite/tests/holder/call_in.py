# Has a process make system calls of another's choice, and prints how each was answered: the process is
# traced, set to the instruction by which it waits in the kernel, stepped once, and put back as it was.
# Linux on x86_64. Arguments: the pid, then numbers of calls; all their arguments are 0.
import ctypes
import os
import sys

ATTACH, DETACH, STEP, GET, SET = 16, 17, 9, 12, 13
WALL = 0x40000000
NAMES = (
    "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
    "fs_base gs_base ds es fs gs"
).split()


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in NAMES]


libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, registers=None):
    address = ctypes.byref(registers) if registers is not None else None
    if libc.ptrace(request, pid, None, address) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def call(number):
    there = Registers.from_buffer_copy(before)
    there.rip = before.rip - 2  # The instruction `syscall` itself.
    there.rax, there.orig_rax = number, 2**64 - 1
    for register in ("rdi", "rsi", "rdx", "r10", "r8", "r9"):
        setattr(there, register, 0)
    ptrace(SET, there)
    ptrace(STEP)
    os.waitpid(pid, WALL)
    ptrace(GET, there)
    return ctypes.c_longlong(there.rax).value


pid = int(sys.argv[1])
ptrace(ATTACH)
os.waitpid(pid, WALL)
before = Registers()
ptrace(GET, before)
for number in sys.argv[2:]:
    print(number, call(int(number)))
ptrace(SET, before)
ptrace(DETACH)
