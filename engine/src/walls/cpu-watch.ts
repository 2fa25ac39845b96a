import { readFileSync } from 'node:fs'

const POLL_MS = 250
/** Of the times in /proc: what Linux shows programs, whatever its own clock does. */
const TICKS_PER_S = 100

/**
 * Tells what a child uses of the processors while it lives, all of its threads and its start included. Ask once more
 * (`look`) before it is killed: of a process that is gone nothing can be read. Without /proc it tells nothing.
 */
export class CpuWatch {
  readonly #pid: number
  readonly #used: (seconds: number) => void
  readonly #timer: NodeJS.Timeout
  #toldS = 0

  /** @param used told what was used since it was told last */
  constructor(pid: number, used: (seconds: number) => void) {
    this.#pid = pid
    this.#used = used
    this.#timer = setInterval(() => this.look(), POLL_MS)
    this.#timer.unref()
  }

  look(): void {
    const seconds = cpuSeconds(this.#pid)
    if (seconds === null || seconds <= this.#toldS) return
    this.#used(seconds - this.#toldS)
    this.#toldS = seconds
  }

  end(): void {
    clearInterval(this.#timer)
  }
}

/** What the process has used of the processors; null where it is gone, or there is no /proc. */
export function cpuSeconds(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The second field is the program's name, in brackets, and may hold anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S
  } catch {
    return null
  }
}
