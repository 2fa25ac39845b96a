import { readFileSync } from 'node:fs'

const POLL_MS = 250
/** Of the times in /proc: what Linux shows programs, whatever its own clock does. */
const TICKS_PER_S = 100

export interface WatchedChild {
  readonly pid: number
  /** Fulfilled when the process is gone. Never rejected. */
  readonly ended: Promise<unknown>
}

/**
 * What a child uses of the processors while it lives, all of its threads and its start included. Look once more before it
 * is killed: of a process that is gone nothing can be read. Without /proc it tells nothing.
 */
export class CpuWatch {
  readonly #child: WatchedChild
  #used: ((seconds: number) => void) | null = null
  #toldS = 0

  constructor(child: WatchedChild) {
    this.#child = child
  }

  /**
   * Once at most, until the child ends.
   *
   * @param used told the seconds since it was told last
   */
  tell(used: (seconds: number) => void): void {
    this.#used = used
    const timer = setInterval(() => this.look(), POLL_MS)
    timer.unref()
    void this.#child.ended.then(() => clearInterval(timer))
  }

  look(): void {
    if (this.#used === null) return
    const seconds = cpuSeconds(this.#child.pid)
    if (seconds === null || seconds <= this.#toldS) return
    this.#used(seconds - this.#toldS)
    this.#toldS = seconds
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
