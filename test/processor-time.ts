/** What work cost, whatever else the machine was doing meanwhile. */
import { readFileSync } from 'node:fs'

/** Linux counts in hundredths of a second for programs, on every machine: man 5 proc, USER_HZ. */
const TICKS_PER_SECOND = 100

/** Of this process and of the children that it has waited for, theirs included; null where there is no /proc. */
export function processorSeconds(): number | null {
  let stat: string
  try {
    stat = readFileSync('/proc/self/stat', 'utf8')
  } catch {
    return null
  }
  // After the name, which may hold anything: state is field 3, then utime, stime, cutime and cstime are 14 to 17.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
  return ticks / TICKS_PER_SECOND
}
