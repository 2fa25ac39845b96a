import type { ColumnOrigin } from '../deploy/column-classes.ts'

/** Sources may be too many, where a name could mean several columns; of a column that is copied it is known which one. */
export function valuesOf({ sources, copied = null }: Pick<ColumnOrigin, 'sources' | 'copied'>): readonly string[] {
  return copied === null ? [...new Set(sources)] : [copied]
}
