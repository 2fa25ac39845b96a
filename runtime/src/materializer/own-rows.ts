/** The rows that one state of a table has and another one has not, as far as files and lists of rows that are gone tell. */
import type { EngineTable } from '@sluice/engine'
import { type LakeColumn, type LakeState, stateTable } from './lake-state.ts'

/**
 * A relation of the state without the rows that lie at the same place of the same file in `other`: a key that has one of those
 * is nowhere else in either. Each state must have a key at most once, and both the columns `as`, by the same ids.
 */
export function ownRows(name: string, state: LakeState, other: LakeState, as: readonly LakeColumn[]): EngineTable {
  const shared = new Set(other.files)
  const own = stateTable(
    name,
    part(state, (file) => !shared.has(file)),
    as,
  )
  const both = part(state, (file) => shared.has(file))
  const only = other.deletes?.deletes ?? []
  if (both.files.length === 0 || only.length === 0 || sameLists(state, other)) return own
  // Of a file that both have: what is gone in the other one, and is here.
  const names = namesOf(other)
  const deletedFrom = both.files.map((file) => names.get(file) ?? file)
  return { ...own, also: { files: both.files, ...both.deletes, only, deletedFrom } }
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
