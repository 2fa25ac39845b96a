/** How many rows may be left out because they cannot be carried. */
import type { RejectedLimit } from '../manifest/manifest-set.ts'

/** Where quality.yaml says nothing. */
export const MAX_REJECTED: RejectedLimit = { percent: 0.1, rows: 100 }

/** In rows and in share, of all that there are. */
export function exceeds(rejected: number, total: number, { percent, rows }: RejectedLimit): boolean {
  return rejected > rows && rejected * 100 > percent * total
}
