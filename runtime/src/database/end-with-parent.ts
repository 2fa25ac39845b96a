/** For a process that is to end with the one that has started it, also where neither can say a word. */
import koffi from 'koffi'

const SET_DEATH_SIGNAL = 1
const SIGKILL = 9

/** The kernel's: it holds where this process is held up, and hears of nothing. Elsewhere than on Linux nothing is done. */
export function endWithParent(): void {
  if (process.platform !== 'linux') return
  const prctl = koffi.load(null).func('int prctl(int option, unsigned long value)') as (
    option: number,
    value: number,
  ) => number
  prctl(SET_DEATH_SIGNAL, SIGKILL)
  // The parent may have ended just before.
  if (!process.connected) process.exit(1)
}
