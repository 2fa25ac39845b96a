import type { Libc } from './libc.ts'

/**
 * A seccomp filter (seccomp(2)) over all threads of the process: no sockets, no programs, no processes, no tracing, no
 * change of identity, no kernel features that a database does not need. Everything else is let through, because Node
 * and DuckDB use too much to be listed.
 */

/** x64 and arm64 numbers; null where the architecture lacks the call. */
const DENIED: Readonly<Record<string, readonly [x64: number | null, arm64: number | null]>> = {
  socket: [41, 198],
  socketpair: [53, 199],
  connect: [42, 203],
  bind: [49, 200],
  listen: [50, 201],
  accept: [43, 202],
  accept4: [288, 242],
  fork: [57, null],
  vfork: [58, null],
  execve: [59, 221],
  execveat: [322, 281],
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  kcmp: [312, 272],
  pidfd_open: [434, 434],
  pidfd_getfd: [438, 438],
  pidfd_send_signal: [424, 424],
  process_madvise: [440, 440],
  tkill: [200, 130],
  rt_sigqueueinfo: [129, 138],
  rt_tgsigqueueinfo: [297, 240],
  setuid: [105, 146],
  setgid: [106, 144],
  setreuid: [113, 145],
  setregid: [114, 143],
  setresuid: [117, 147],
  setresgid: [119, 149],
  setgroups: [116, 159],
  setfsuid: [122, 151],
  setfsgid: [123, 152],
  capset: [126, 91],
  personality: [135, 92],
  chroot: [161, 51],
  pivot_root: [155, 41],
  mount: [165, 40],
  umount2: [166, 39],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  unshare: [272, 97],
  setns: [308, 268],
  link: [86, null],
  linkat: [265, 37],
  symlink: [88, null],
  symlinkat: [266, 36],
  mknod: [133, null],
  mknodat: [259, 33],
  chmod: [90, null],
  fchmod: [91, 52],
  fchmodat: [268, 53],
  fchmodat2: [452, 452],
  chown: [92, null],
  lchown: [94, null],
  fchown: [93, 55],
  fchownat: [260, 54],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  fanotify_init: [300, 262],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  shmget: [29, 194],
  msgget: [68, 186],
  semget: [64, 190],
  mq_open: [240, 180],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  reboot: [169, 142],
  acct: [163, 89],
  swapon: [167, 224],
  swapoff: [168, 225],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  syslog: [103, 116],
  vhangup: [153, 58],
  modify_ldt: [154, null],
  iopl: [172, null],
  ioperm: [173, null],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  clock_adjtime: [305, 266],
  adjtimex: [159, 171],
  sethostname: [170, 161],
  setdomainname: [171, 162],
}

/**
 * Refused on top of these where sockets are lent: a peer can be named by these calls too, and descriptors be sent. Node
 * reads and writes sockets by calls of their own.
 */
const ON_DEMAND = {
  sendto: [44, 206],
  sendmsg: [46, 211],
  sendmmsg: [307, 269],
} as const

export type SystemCall = keyof typeof ON_DEMAND

interface Architecture {
  readonly index: 0 | 1
  /** AUDIT_ARCH_… of <linux/audit.h>. */
  readonly audit: number
  readonly clone: number
  readonly clone3: number
  readonly kill: number
  readonly tgkill: number
  readonly seccomp: number
}

const ARCHITECTURES: Readonly<Record<string, Architecture>> = {
  x64: { index: 0, audit: 0xc000003e, clone: 56, clone3: 435, kill: 62, tgkill: 234, seccomp: 317 },
  arm64: { index: 1, audit: 0xc00000b7, clone: 220, clone3: 435, kill: 129, tgkill: 131, seccomp: 277 },
}

const LOAD = 0x20
const JUMP_EQUAL = 0x15
const JUMP_GREATER_EQUAL = 0x35
const JUMP_SET = 0x45
const RETURN = 0x06
const ALLOW = 0x7fff0000
const KILL_PROCESS = 0x80000000
const REFUSE = 0x00050000
const EPERM = 1
const ENOSYS = 38
/** Offsets in `struct seccomp_data`. */
const NUMBER = 0
const ARCHITECTURE = 4
const FIRST_ARGUMENT = 16
const CLONE_THREAD = 0x00010000
const X32_CALLS = 0x40000000

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number]

const refuse = (errno: number): Instruction => [RETURN, 0, 0, REFUSE | errno]

/** Leaves the number of the call to be looked at. */
function filterStart(architecture: Architecture): Instruction[] {
  return [
    [LOAD, 0, 0, ARCHITECTURE],
    [JUMP_EQUAL, 1, 0, architecture.audit],
    [RETURN, 0, 0, KILL_PROCESS],
    [LOAD, 0, 0, NUMBER],
    [JUMP_GREATER_EQUAL, 0, 1, X32_CALLS],
    refuse(EPERM),
  ]
}

/** Every test stands alone: it refuses at once or falls through to the next. */
function filterProgram(architecture: Architecture, pid: number, more: readonly SystemCall[]): Instruction[] {
  const program: Instruction[] = [
    ...filterStart(architecture),
    // ENOSYS makes the C library fall back to clone, whose flags can be looked at.
    [JUMP_EQUAL, 0, 1, architecture.clone3],
    refuse(ENOSYS),
  ]
  for (const numbers of [...Object.values(DENIED), ...more.map((call) => ON_DEMAND[call])]) {
    const number = numbers[architecture.index]
    if (number !== null) program.push([JUMP_EQUAL, 0, 1, number], refuse(EPERM))
  }
  program.push(
    // Threads yes, processes no.
    [JUMP_EQUAL, 0, 4, architecture.clone],
    [LOAD, 0, 0, FIRST_ARGUMENT],
    [JUMP_SET, 1, 0, CLONE_THREAD],
    refuse(EPERM),
    [RETURN, 0, 0, ALLOW],
    // Signals to oneself only.
    [JUMP_EQUAL, 1, 0, architecture.kill],
    [JUMP_EQUAL, 0, 3, architecture.tgkill],
    [LOAD, 0, 0, FIRST_ARGUMENT],
    [JUMP_EQUAL, 1, 0, pid],
    refuse(EPERM),
    [RETURN, 0, 0, ALLOW],
  )
  return program
}

/** A program of others may start others, and talk within a network that is its own. */
const ALLOWED_TO_PROGRAMS: ReadonlySet<string> = new Set(
  'accept accept4 bind connect execve fork link linkat listen setgid setgroups setuid socket socketpair vfork'.split(
    ' ',
  ),
)
const SOCKET = [41, 198] as const
const SOCKETPAIR = [53, 199] as const
const SECOND_ARGUMENT = 24
const MASK = 0x54
const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10
const SOCK_STREAM = 1
const SOCK_TYPES = 0xf
/** CLONE_NEW…, all of them: no room of its own, in which it had rights. */
const CLONE_ROOMS = 0x7e020080

/**
 * Sockets of the internet alone: one of the file system, or of the machine below this one, is in no network of ours.
 * A pair of sockets is a pipe, unless it can name a peer.
 */
function programFilter(architecture: Architecture): Instruction[] {
  const { index } = architecture
  const program: Instruction[] = [...filterStart(architecture), [JUMP_EQUAL, 0, 1, architecture.clone3], refuse(ENOSYS)]
  for (const [name, numbers] of Object.entries(DENIED)) {
    const number = numbers[index]
    if (number !== null && !ALLOWED_TO_PROGRAMS.has(name)) program.push([JUMP_EQUAL, 0, 1, number], refuse(EPERM))
  }
  program.push(
    [JUMP_EQUAL, 0, 5, SOCKET[index]],
    [LOAD, 0, 0, FIRST_ARGUMENT],
    [JUMP_EQUAL, 2, 0, AF_INET],
    [JUMP_EQUAL, 1, 0, AF_INET6],
    refuse(EPERM),
    [RETURN, 0, 0, ALLOW],
    [JUMP_EQUAL, 0, 7, SOCKETPAIR[index]],
    [LOAD, 0, 0, FIRST_ARGUMENT],
    [JUMP_EQUAL, 0, 4, AF_UNIX],
    [LOAD, 0, 0, SECOND_ARGUMENT],
    [MASK, 0, 0, SOCK_TYPES],
    [JUMP_EQUAL, 0, 1, SOCK_STREAM],
    [RETURN, 0, 0, ALLOW],
    refuse(EPERM),
    [JUMP_EQUAL, 0, 3, architecture.clone],
    [LOAD, 0, 0, FIRST_ARGUMENT],
    [JUMP_SET, 0, 1, CLONE_ROOMS],
    refuse(EPERM),
    [RETURN, 0, 0, ALLOW],
  )
  return program
}

const SET_MODE_FILTER = 1
const GET_ACTION_AVAILABLE = 2

/** Whether the kernel, and this program, know filters for this machine. Puts up none. */
export function filtersAreKnown(libc: Libc): boolean {
  const architecture = ARCHITECTURES[process.arch]
  if (!architecture) return false
  const action = Buffer.alloc(4)
  action.writeUInt32LE(REFUSE)
  const seccomp = libc.func('long syscall(long number, long operation, long flags, void *action)')
  return Number(seccomp(architecture.seccomp, GET_ACTION_AVAILABLE, 0, action)) === 0
}

const ON_ALL_THREADS = 1

/** Puts the filter on every thread of this process. Throws where the kernel or the architecture has none. */
export function refuseSystemCalls(libc: Libc, more: readonly SystemCall[] = []): void {
  putFilter(libc, (architecture) => filterProgram(architecture, process.pid, more))
}

/** As above, for a program of others that this process is about to become: processes and sockets of its own network are let through. */
export function refuseProgramCalls(libc: Libc): void {
  putFilter(libc, programFilter)
}

/** As `refuseSystemCalls`, and nothing but making an io_uring. Other filters may follow. */
export function refuseRings(libc: Libc): void {
  refuseAlone(libc, ({ index }) => DENIED['io_uring_setup']?.[index] ?? -1, EPERM)
}

const LANDLOCK_CREATE_RULESET = 444

/** As a kernel answers that does not know that wall's calls; for tests of what is done then. */
export function missWall(libc: Libc, wall: 'landlock' | 'seccomp'): void {
  refuseAlone(libc, ({ seccomp }) => (wall === 'seccomp' ? seccomp : LANDLOCK_CREATE_RULESET), ENOSYS)
}

function refuseAlone(libc: Libc, callOf: (architecture: Architecture) => number, errno: number): void {
  putFilter(libc, (architecture) => [
    ...filterStart(architecture),
    [JUMP_EQUAL, 0, 1, callOf(architecture)],
    refuse(errno),
    [RETURN, 0, 0, ALLOW],
  ])
}

const NO_NEW_PRIVS = 38

function putFilter(libc: Libc, programFor: (architecture: Architecture) => readonly Instruction[]): void {
  const architecture = ARCHITECTURES[process.arch]
  if (!architecture) throw new Error(`no filter is known for ${process.arch}`)
  const program = programFor(architecture)
  const bytes = Buffer.alloc(program.length * 8)
  for (const [index, [code, ifTrue, ifFalse, value]] of program.entries()) {
    bytes.writeUInt16LE(code, index * 8)
    bytes.writeUInt8(ifTrue, index * 8 + 2)
    bytes.writeUInt8(ifFalse, index * 8 + 3)
    bytes.writeUInt32LE(value >>> 0, index * 8 + 4)
  }
  // `struct sock_fprog`: how many, then where.
  const described = Buffer.alloc(16)
  described.writeUInt16LE(program.length, 0)
  described.writeBigUInt64LE(libc.addressOf(bytes), 8)
  // The kernel asks for it first, unless root asks.
  libc.func('int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)')(
    ...[NO_NEW_PRIVS, 1, 0, 0, 0],
  )
  const seccomp = libc.func('long syscall(long number, long operation, long flags, void *program)')
  const result = Number(seccomp(architecture.seccomp, SET_MODE_FILTER, ON_ALL_THREADS, described))
  if (result !== 0) throw new Error(`the filter was refused: ${result}, errno ${libc.errno()}`)
}

/** True where a socket cannot be made. */
export function socketsAreRefused(libc: Libc): boolean {
  const AF_INET = 2
  const SOCK_STREAM = 1
  return Number(libc.func('int socket(int family, int type, int protocol)')(AF_INET, SOCK_STREAM, 0)) === -1
}

/** True where a process cannot be made. */
export function processesAreRefused(libc: Libc): boolean {
  const SIGCHLD = 17
  const architecture = ARCHITECTURES[process.arch]
  if (!architecture) return false
  // With an impossible flag combination (CLONE_SIGHAND without CLONE_VM) the kernel itself answers EINVAL, never a child.
  const impossible = 0x00000800 | SIGCHLD
  const clone = libc.func('long syscall(long number, long flags, long a, long b, long c, long d)')
  // Between the two calls the JavaScript engine may make one of its own that fails and leaves its errno. Without the filter
  // no attempt gives EPERM, with it every one does: one that is told of is enough.
  for (let attempt = 0; attempt < 5; attempt++) {
    if (Number(clone(architecture.clone, impossible, 0, 0, 0, 0)) === -1 && libc.errno() === EPERM) return true
  }
  return false
}
