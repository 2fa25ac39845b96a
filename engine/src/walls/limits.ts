import { readFileSync } from 'node:fs'
import type { Libc } from './libc.ts'

/** Limits of the process (setrlimit(2), prctl(2)) by Linux's numbers. */

const RLIMIT_FSIZE = 1
const RLIMIT_DATA = 2
const RLIMIT_CORE = 4
const RLIMIT_NPROC = 6
const RLIMIT_NOFILE = 7
const PR_SET_PDEATHSIG = 1
const PR_SET_DUMPABLE = 4
const PR_CAPBSET_DROP = 24
/** More than any kernel has: those that it does not know are refused, which is no matter. */
const CAPABILITIES = 64
const SIGKILL = 9

export class ProcessLimits {
  readonly #libc: Libc
  readonly #prctl: (option: number, value: number) => boolean

  constructor(libc: Libc) {
    this.#libc = libc
    const prctl = libc.func('int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)')
    this.#prctl = (option, value) => Number(prctl(option, value, 0, 0, 0)) === 0
  }

  /** The kernel kills this process when the thread that made it is gone. Lost again when the user changes. */
  dieWithParent(parentPid: number): boolean {
    if (!this.#prctl(PR_SET_PDEATHSIG, SIGKILL)) return false
    // The parent may have gone before the call.
    if (process.ppid !== parentPid) process.kill(process.pid, 'SIGKILL')
    return true
  }

  /** After a change of user the kernel hides /proc/self from the process; its own descriptors are opened there. */
  keepOwnProc(): void {
    this.#prctl(PR_SET_DUMPABLE, 1)
  }

  noCoreDumps(): void {
    this.#limit(RLIMIT_CORE, 0)
  }

  /** Bounds what the process may still allocate. Address space itself cannot be bounded: V8 reserves far too much. */
  boundMemory(moreBytes: number): boolean {
    const held = /^VmData:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1]
    if (held === undefined) return false
    return this.#limit(RLIMIT_DATA, Number(held) * 1024 + moreBytes)
  }

  /** No program that this process becomes, or starts, has a capability, whoever it runs as. */
  noCapabilities(): void {
    for (let capability = 0; capability < CAPABILITIES; capability += 1) this.#prctl(PR_CAPBSET_DROP, capability)
  }

  /**
   * Of the program that this process becomes, and of each that it starts.
   *
   * @param processes of this user, threads counted, wherever they run
   */
  boundProgram(limits: {
    readonly memoryBytes: number
    readonly fileBytes: number
    readonly files: number
    readonly processes: number
  }): void {
    this.#limit(RLIMIT_FSIZE, limits.fileBytes)
    this.#limit(RLIMIT_NOFILE, limits.files)
    this.#limit(RLIMIT_NPROC, limits.processes)
    this.#limit(RLIMIT_DATA, limits.memoryBytes)
  }

  #limit(resource: number, value: number): boolean {
    const setrlimit = this.#libc.func('int setrlimit(int resource, void *limit)')
    const limit = Buffer.alloc(16)
    limit.writeBigUInt64LE(BigInt(value), 0)
    limit.writeBigUInt64LE(BigInt(value), 8)
    return Number(setrlimit(resource, limit)) === 0
  }
}
