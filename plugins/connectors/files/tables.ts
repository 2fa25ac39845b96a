/** Which tables there are: those that the settings name, and those that a file beside theirs describes. */
import { type Column, isSluiceError, SluiceError } from '@sluice/sdk'
import { fileChanged, fileInvalid, quotedPath, requestInvalid, stopIfAborted } from './failure.ts'
import type { FileStore, OpenFile, SourceFile } from './file-store.ts'
import { sampledColumns } from './sample.ts'
import { parseTable, TABLE_NAME, type TableOfFiles } from './table-settings.ts'

/** In a folder at the top: makes a table of that folder's name. */
const DESCRIPTION = '_table.json'
const MAX_DESCRIPTION_BYTES = 256 * 1024

/** A table as it was when it was looked at. */
export interface FoundTable {
  readonly table: TableOfFiles
  /** By path. */
  readonly files: readonly SourceFile[]
  readonly columns: readonly Column[]
  /** Another text where the description that lies beside the files is another; null where the settings name the table. */
  readonly description: string | null
}

export class Tables {
  readonly #store: FileStore
  readonly #named: ReadonlyMap<string, TableOfFiles>

  constructor(store: FileStore, named: readonly TableOfFiles[]) {
    this.#store = store
    this.#named = new Map(named.map((table) => [table.name, table]))
  }

  /** What the settings say of a table; null where they do not name it. */
  named(name: string): TableOfFiles | null {
    return this.#named.get(name) ?? null
  }

  /** In order. */
  async names(signal: AbortSignal): Promise<readonly string[]> {
    const described: string[] = []
    for (const folder of await this.#store.folders(signal)) {
      if (!TABLE_NAME.test(folder) || this.#named.has(folder)) continue
      if ((await this.#store.find(`${folder}/${DESCRIPTION}`, signal)) !== null) described.push(folder)
    }
    return [...this.#named.keys(), ...described].sort()
  }

  /**
   * The table's files and columns, and what `use` makes of them, all as of one listing: where a file is changed meanwhile it
   * is looked at anew. Throws INVALID_DATA where there is no such table, or no file of it.
   */
  async look<T>(name: string, signal: AbortSignal, use: (found: FoundTable) => Promise<Kept<T>>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      stopIfAborted(signal)
      try {
        return await this.#lookOnce(name, signal, use)
      } catch (error) {
        if (!isSluiceError(error) || error.code !== 'source_file_changed' || attempt === MAX_LOOKS) throw error
      }
    }
  }

  async #lookOnce<T>(name: string, signal: AbortSignal, use: (found: FoundTable) => Promise<Kept<T>>): Promise<T> {
    const named = this.#named.get(name)
    const description = named === undefined ? await this.#description(name, signal) : null
    const table = named ?? (await this.#described(name, description, signal))
    const listed = await this.#store.list(table.glob, signal)
    const files = description === null ? listed : listed.filter(({ path }) => path !== description.path)
    if (named !== undefined && files.length === 0) throw noFiles(table)
    const columns = await this.#columns(table, files, signal)
    if (columns.length === 0) throw noColumns(table)
    checkNames(table, columns)
    const kept = await use({ table, files, columns, description: description?.version ?? null })
    if (description === null) return kept.value
    const now = await this.#store.find(description.path, signal)
    if (now?.version === description.version) return kept.value
    await kept.discard()
    throw fileChanged(description.path)
  }

  async #columns(table: TableOfFiles, files: readonly SourceFile[], signal: AbortSignal): Promise<readonly Column[]> {
    const { columns, primaryKey } = table
    if (columns === null) return sampledColumns(table, files, this.#store, signal)
    return columns.map((column) => ({ ...column, nullable: !primaryKey.includes(column.name) }))
  }

  async #description(name: string, signal: AbortSignal): Promise<SourceFile> {
    const found = TABLE_NAME.test(name) ? await this.#store.find(`${name}/${DESCRIPTION}`, signal) : null
    if (found === null) throw requestInvalid('there is no such table')
    return found
  }

  async #described(name: string, description: SourceFile | null, signal: AbortSignal): Promise<TableOfFiles> {
    if (description === null) throw requestInvalid('there is no such table')
    const { path } = description
    const text = await textOf(description, await this.#store.open(description, signal), signal)
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch (cause) {
      throw fileInvalid(path, 'it is no JSON', 'Write an object with glob, format and columns.', cause)
    }
    try {
      return parseTable(name, value, `${name}/`)
    } catch (error) {
      if (!isSluiceError(error, 'CONFIG')) throw error
      throw fileInvalid(path, error.message, error.remedy ?? 'Correct it.', error)
    }
  }
}

/** What was made of a table, and how to let go of it. */
export interface Kept<T> {
  readonly value: T
  discard(): Promise<void>
}

const MAX_LOOKS = 10

async function textOf({ path, bytes }: SourceFile, file: OpenFile, signal: AbortSignal): Promise<string> {
  try {
    if (bytes > MAX_DESCRIPTION_BYTES)
      throw fileInvalid(path, 'it is too large', `Keep it below ${MAX_DESCRIPTION_BYTES} bytes.`)
    return Buffer.concat(await Array.fromAsync(file.chunks(signal))).toString('utf8')
  } finally {
    await file.close()
  }
}

/** A folder that is not mounted looks like one without files: it must not empty a table. */
function noFiles({ name, glob }: TableOfFiles): SluiceError {
  return new SluiceError('INVALID_DATA', `table ${name}: no file matches ${quotedPath(glob.text)}`, {
    code: 'source_no_files',
    remedy: 'Correct the glob, or put a file there; one with a header alone makes the table empty.',
  })
}

function noColumns({ name }: TableOfFiles): SluiceError {
  return new SluiceError('INVALID_DATA', `table ${name}: its files do not say which columns it has`, {
    code: 'source_schema_unknown',
    remedy: 'List them under columns, by name and type.',
  })
}

function checkNames({ name, primaryKey, cursorColumn }: TableOfFiles, columns: readonly Column[]): void {
  const used = cursorColumn === null ? primaryKey : [...primaryKey, cursorColumn]
  const missing = used.find((column) => !columns.some((one) => one.name === column))
  if (missing === undefined) return
  throw new SluiceError('INVALID_DATA', `table ${name}: its files have no column ${quotedPath(missing)}`, {
    code: 'source_schema_unknown',
    remedy: 'Correct primary_key or cursor_column, or the files.',
  })
}
