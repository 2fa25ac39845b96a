/**
 * Programs of others, in rooms of their own: process ids, network, mounts and shared memory that nothing else is in (`unshare(1)`),
 * and within them the walls that our own children have. One process keeps the room, and is its first: when it ends, the kernel
 * ends whatever runs there.
 */
import { chmodSync, chownSync } from 'node:fs'
import { Landlock } from './landlock.ts'
import type { Libc } from './libc.ts'
import { ProcessLimits } from './limits.ts'
import { refuseProgramCalls } from './seccomp.ts'

/** Where the folder is that a program may write to: in memory, of its room alone, gone with it. Every Linux has it. */
export const PROGRAM_FOLDER = '/dev/shm'

/** What makes the room; the command that keeps it follows. */
export function roomCommand(isRoot: boolean): readonly string[] {
  const rooms = ['--mount', '--net', '--pid', '--ipc', '--mount-proc', '--fork', '--kill-child=SIGKILL']
  return ['unshare', ...(isRoot ? [] : ['--user', '--map-root-user']), ...rooms, '--']
}

const MS_NOSUID = 2
const MS_NODEV = 4
const AF_INET = 2
const SOCK_DGRAM = 2
const SIOCSIFFLAGS = 0x8914
const IFF_UP = 1
/** `struct ifreq`: a name, then flags. */
const REQUEST_BYTES = 40
const FLAGS_AT = 16

/** Of whoever keeps a room: makes its folder and its loopback. `userId`: whose the folder is; null: of who runs this. */
export function furnishRoom(libc: Libc, folderBytes: number, userId: number | null): void {
  const mount = libc.func(
    'int mount(const char *source, const char *target, const char *kind, unsigned long flags, const char *data)',
  )
  const made = mount('tmpfs', PROGRAM_FOLDER, 'tmpfs', MS_NOSUID | MS_NODEV, `size=${folderBytes},nr_inodes=4096`)
  if (Number(made) !== 0) throw new Error(`the folder of the program could not be mounted: errno ${libc.errno()}`)
  chmodSync(PROGRAM_FOLDER, 0o700)
  if (userId !== null) chownSync(PROGRAM_FOLDER, userId, userId)
  const socket = Number(libc.func('int socket(int family, int type, int protocol)')(AF_INET, SOCK_DGRAM, 0))
  const request = Buffer.alloc(REQUEST_BYTES)
  request.write('lo', 'latin1')
  request.writeInt16LE(IFF_UP, FLAGS_AT)
  const raised = libc.func('int ioctl(int descriptor, unsigned long request, void *value)')(
    socket,
    SIOCSIFFLAGS,
    request,
  )
  libc.func('int close(int descriptor)')(socket)
  if (Number(raised) !== 0) throw new Error(`the loopback could not be raised: errno ${libc.errno()}`)
}

const F_SETFD = 2

export interface ProgramStart {
  /** The first word is the program's path. */
  readonly command: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly userId: number | null
  /** Code, libraries: what may be read and run. */
  readonly runTrees: readonly string[]
  readonly files: readonly string[]
  /** The one port of the room's loopback that it may connect to. */
  readonly port: number
  readonly memoryBytes: number
  readonly fileBytes: number
  readonly openFiles: number
  readonly processes: number
}

/** Becomes the program, behind walls: does not return. Throws where a wall cannot be put up, or the program not be started. */
export function becomeProgram(libc: Libc, start: ProgramStart): never {
  const limits = new ProcessLimits(libc)
  const landlock = Landlock.prepare(libc, {
    files: start.files,
    readTrees: [],
    writeTrees: [PROGRAM_FOLDER, '/dev/null'],
    runTrees: start.runTrees,
    ports: [start.port],
  })
  const execve = libc.func('int execve(const char *path, const char **words, const char **environment)')
  limits.noCoreDumps()
  limits.noCapabilities()
  process.chdir(PROGRAM_FOLDER)
  if (start.userId !== null) {
    process.setgroups?.([])
    process.setgid?.(start.userId)
    process.setuid?.(start.userId)
  }
  if (!landlock.restrictThisThread()) throw new Error('Landlock was refused')
  refuseProgramCalls(libc)
  const [path = ''] = start.command
  const environment = Object.entries(start.environment).map(([name, value]) => `${name}=${value}`)
  limits.boundProgram({
    memoryBytes: start.memoryBytes,
    fileBytes: start.fileBytes,
    files: start.openFiles,
    processes: start.processes,
  })
  // Node marks them to be closed when another program takes its place.
  const fcntl = libc.func('int fcntl(int descriptor, int command, int value)')
  for (const descriptor of [0, 1, 2]) fcntl(descriptor, F_SETFD, 0)
  execve(path, [...start.command, null], [...environment, null])
  throw new Error(`the program could not be started: errno ${libc.errno()}`)
}
