/** The rows that one state of a table has and another one has not, as far as files and lists of rows that are gone tell. */
import { type EngineStep, type EngineTable, quoteName } from '@sluice/engine'
import { type LakeColumn, type LakeState, stateTable } from './lake-state.ts'

export interface OwnRows {
  readonly tables: readonly EngineTable[]
  /** Makes a view of the name, where one table is not enough. */
  readonly step?: EngineStep
}

/**
 * A relation of the state without the rows that lie at the same place of the same file in `other`: a key that has one of those
 * is nowhere else in either. Each state must have a key at most once, and both the columns `as`, by the same ids.
 */
export function ownRows(name: string, state: LakeState, other: LakeState, as: readonly LakeColumn[]): OwnRows {
  const shared = new Set(other.files)
  const own = part(state, (file) => !shared.has(file))
  const both = part(state, (file) => shared.has(file))
  const listed = other.deletes?.deletes ?? []
  const whole = stateTable(name, own, as)
  if (both.files.length === 0 || listed.length === 0 || sameLists(state, other)) return { tables: [whole] }
  // Of a file that both have: what is gone in the other one, and is here.
  const names = namesOf(other)
  const gone: EngineTable = {
    ...stateTable(`${name}_gone`, both, as),
    only: listed,
    deletedFrom: both.files.map((file) => names.get(file) ?? file),
  }
  const [first, second] = [`${name}_own`, `${name}_gone`].map(quoteName)
  const sql = `CREATE OR REPLACE TEMP VIEW ${quoteName(name)} AS SELECT * FROM ${first} UNION ALL SELECT * FROM ${second}`
  return { tables: [{ ...whole, name: [`${name}_own`] }, gone], step: { sql } }
}

/** What delete files call each file. */
function namesOf({ files, deletes }: LakeState): ReadonlyMap<string, string> {
  return new Map(files.map((file, at) => [file, deletes?.deletedFrom?.[at] ?? file]))
}

function part(state: LakeState, isWanted: (file: string) => boolean): LakeState {
  const files = state.files.filter(isWanted)
  if (state.deletes === undefined) return { ...state, files }
  const names = namesOf(state)
  const deletedFrom = files.map((file) => names.get(file) ?? file)
  return { ...state, files, deletes: { ...state.deletes, deletedFrom } }
}

function sameLists(state: LakeState, other: LakeState): boolean {
  const listsOf = ({ deletes }: LakeState) => [...(deletes?.deletes ?? [])].sort().join('\n')
  return listsOf(state) === listsOf(other)
}
