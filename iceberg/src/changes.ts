import { type EngineTable, quoteName } from '@sluice/engine'
import type { LakeSchema } from './format/table-schema.ts'
import { deletesByFile } from './position-deletes.ts'
import { engineTable, type Scan } from './scan.ts'

/**
 * How to compute what changed between two snapshots of one table: relations for an engine job, and statements over
 * them. Files that both snapshots hold are read by neither side.
 */
export interface Changes {
  readonly tables: readonly EngineTable[]
  /** The columns of `upserts`: the newer snapshot's. */
  readonly schema: LakeSchema
  /** Rows to write: every row of the newer snapshot that the older one has not exactly so. */
  readonly upserts: string
  /**
   * With a key: the keys that are gone. Without: the rows that are gone, each as often as it is; `upserts` then gives
   * each new row as often as it is new.
   */
  readonly deletes: string
  /** True where nothing can have changed: the statements give no rows. */
  readonly isEmpty: boolean
}

const BEFORE = 'lake_before'
const AFTER = 'lake_after'

/**
 * @param key names of key columns in the newer snapshot. Each snapshot must have at most one row per key: then a key
 *   of a file that both hold can be in no other file of either, which is what lets those files be skipped.
 * @param from null for the difference from nothing
 */
export function describeChanges(from: Scan | null, to: Scan, key: readonly string[]): Changes {
  const held = new Set(from?.files.map((file) => file.uri))
  const sameDeletes = from === null ? () => false : equalDeletes(from, to)
  const shared = new Set(to.files.map((file) => file.uri).filter((uri) => held.has(uri) && sameDeletes(uri)))
  const only = (scan: Scan): Scan => ({ ...scan, files: scan.files.filter((file) => !shared.has(file.uri)) })
  const before = from === null ? { ...to, files: [], deletes: [] } : only(from)
  const after = only(to)
  const columns = to.schema.fields.map((field) => quoteName(field.name)).join(', ')
  return {
    tables: [engineTable(before, [BEFORE], to.schema), engineTable(after, [AFTER])],
    schema: to.schema,
    ...(key.length === 0 ? rowStatements(columns) : keyStatements(columns, key)),
    isEmpty: before.files.length === 0 && after.files.length === 0,
  }
}

/**
 * Whether a file that both hold has lost the same rows in each. With unequal deletes of which nobody knows what files they are
 * of, nothing is known to be the same.
 */
function equalDeletes(from: Scan, to: Scan): (uri: string) => boolean {
  const [before, after] = [deletesByFile(from), deletesByFile(to)]
  if (before !== null && after !== null) return (uri) => before.get(uri)?.uri === after.get(uri)?.uri
  const areSame = urisOf(from.deletes) === urisOf(to.deletes)
  return () => areSame
}

const urisOf = (files: Scan['files']): string => JSON.stringify(files.map((file) => file.uri).sort())

function keyStatements(columns: string, key: readonly string[]): Pick<Changes, 'upserts' | 'deletes'> {
  const same = key.map((name) => `a.${quoteName(name)} IS NOT DISTINCT FROM b.${quoteName(name)}`).join(' AND ')
  const names = key.map((name) => `b.${quoteName(name)}`).join(', ')
  return {
    upserts: `SELECT ${columns} FROM ${AFTER} EXCEPT SELECT ${columns} FROM ${BEFORE}`,
    deletes: `SELECT ${names} FROM ${BEFORE} b WHERE NOT EXISTS (SELECT 1 FROM ${AFTER} a WHERE ${same})`,
  }
}

function rowStatements(columns: string): Pick<Changes, 'upserts' | 'deletes'> {
  const less = (a: string, b: string) => `SELECT ${columns} FROM ${a} EXCEPT ALL SELECT ${columns} FROM ${b}`
  return { upserts: less(AFTER, BEFORE), deletes: less(BEFORE, AFTER) }
}
