/** Whether a statement says the same whenever it is asked of the same rows. */
import { foldName, type TreeNode } from './tree.ts'

/**
 * Functions that go by the clock or by chance; of the same name may be a column or a text, which then counts as well. One
 * argument of `age` goes by the clock.
 */
export const UNSTABLE_FUNCTIONS: ReadonlySet<string> = new Set(
  `age ago current_date current_localtime current_localtimestamp current_time current_timestamp gen_random_uuid
  get_current_time get_current_timestamp localtime localtimestamp now random today transaction_timestamp uuid uuidv4 uuidv7`.split(
    /\s+/,
  ),
)

/** False where any text of the tree might be such a function, and where rows are drawn by chance. */
export function isStable(tree: TreeNode): boolean {
  return !isAnyUnstable(tree)
}

/** The same of a text that nobody has taken apart: false where any word of it might be such a function, or a draw. */
export function isStableText(sql: string): boolean {
  const words = sql.split(/[^\p{L}\p{M}\p{N}_]+/u).map(foldName)
  return !words.some((word) => UNSTABLE_FUNCTIONS.has(word) || word === 'sample' || word === 'tablesample')
}

function isAnyUnstable(value: unknown): boolean {
  if (typeof value === 'string') return UNSTABLE_FUNCTIONS.has(foldName(value.trim()))
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(([field, inner]) => (field === 'sample' && inner !== null) || isAnyUnstable(inner))
}
