/** What an incremental read remembers: which files it has read, each as it was. */
import { createHash } from 'node:crypto'
import { type Column, type ConnectorState, SluiceError } from '@sluice/sdk'
import type { SourceFile } from './file-store.ts'
import type { FoundTable } from './tables.ts'

const STATE_VERSION = 1
/** Of each file twelve bytes are kept, sixteen characters: a state may have 64 KiB. */
const MAX_FILES_KEPT = 3500
const HASH_BYTES = 6

interface StateValue extends Record<string, unknown> {
  /** Of what the rows are made by: those of another shape are another table. */
  readonly shape: string
  /** Hashes of paths and versions; where there are too many files, of them all together. */
  readonly files: string
  readonly each: boolean
}

export interface Progress {
  readonly unread: readonly SourceFile[]
  /** What was read before counts no more. */
  readonly whole: boolean
}

export function stateOf(shape: string, files: readonly SourceFile[]): ConnectorState {
  const entries = new Map(files.map((file) => [hash(file.path), hash(file.version)]))
  const each = files.length <= MAX_FILES_KEPT && entries.size === files.length
  const value: StateValue = { shape, files: each ? packed(entries) : allOf(files), each }
  return { version: STATE_VERSION, value }
}

/** Throws CONFIG for a state that this version has not written. */
export function progressOf(state: ConnectorState | null, shape: string, files: readonly SourceFile[]): Progress {
  if (state === null) return { unread: files, whole: false }
  const value = checked(state)
  if (value.shape !== shape) return { unread: files, whole: true }
  if (!value.each) {
    const isSame = value.files === allOf(files)
    return { unread: isSame ? [] : files, whole: !isSame }
  }
  const known = unpacked(value.files)
  return { unread: files.filter(({ path, version }) => known.get(hash(path)) !== hash(version)), whole: false }
}

/** Whoever has a file read otherwise than before, or makes a table anew, has all of its rows read again. */
export function shapeOf(
  { table, description }: Pick<FoundTable, 'table' | 'description'>,
  columns: readonly Column[],
  primaryKey: readonly string[],
): string {
  const { glob, format, dialect } = table
  const types = columns.map(({ name, type }) => [name, type])
  return hash(JSON.stringify([glob.text, format, dialect, types, primaryKey, description]))
}

function checked({ version, value }: ConnectorState): StateValue {
  const { shape, files, each } = value as Partial<StateValue>
  if (version === STATE_VERSION && typeof shape === 'string' && typeof files === 'string' && typeof each === 'boolean')
    return { shape, files, each }
  throw new SluiceError('CONFIG', 'the saved position was not written by this version', {
    code: 'source_state_unknown',
    remedy: 'Read the table once in full.',
  })
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest().subarray(0, HASH_BYTES).toString('base64')
}

function allOf(files: readonly SourceFile[]): string {
  const all = createHash('sha256')
  for (const { path, version } of files) all.update(`${path}\0${version}\0`)
  return all.digest('base64')
}

const CHARACTERS = HASH_BYTES * (4 / 3)

function packed(entries: ReadonlyMap<string, string>): string {
  return [...entries]
    .map(([path, version]) => path + version)
    .sort()
    .join('')
}

function unpacked(text: string): ReadonlyMap<string, string> {
  const entries = new Map<string, string>()
  for (let at = 0; at < text.length; at += 2 * CHARACTERS)
    entries.set(text.slice(at, at + CHARACTERS), text.slice(at + CHARACTERS, at + 2 * CHARACTERS))
  return entries
}
