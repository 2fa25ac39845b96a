import { isSluiceError } from '@sluice/sdk'
import type { Catalog, CatalogEntry } from './catalog.ts'
import type { ObjectStore } from './store/object-store.ts'
import { checkPart, checkTableRef, type Layout, type TableRef } from './table-ref.ts'

/** Tables lie in `{warehouse}/tables/{namespace}/{table}`; beside them stand the pointers and the writers' leases. */
const LAYOUT: Layout = {
  bucketOf: (warehouse) => warehouse,
  folderOf: (warehouse) => `${warehouse}/tables`,
  canRename: () => false,
}

/** Of each table so many pointers stay; whoever has looked at an older one cannot move it any more. */
const KEPT_POINTERS = 100
const DIGITS = 12
const MAX_TABLES = 10_000
const MAX_FILE_BYTES = 10_000

interface Pointer {
  /** 0 where there has never been a table of the name. */
  readonly number: number
  /** Null where there is none now. */
  readonly location: string | null
}

/**
 * A catalog without a server: pointers are files of the object store that has the tables. Each move writes the file of
 * the next number, which only one of several writers can: by a hard link in a folder, by a conditional write in S3. On an
 * S3 store that takes no conditional writes it is safe for one writer at a time. Each table is published by itself.
 */
export class StoreCatalog implements Catalog {
  readonly layout = LAYOUT
  readonly #store: ObjectStore
  readonly #now: () => number

  /** @param now milliseconds since 1970, by which leases end; the same for all who write */
  constructor(store: ObjectStore, now: () => number = Date.now) {
    this.#store = store
    this.#now = now
  }

  async pointer(ref: TableRef): Promise<string | null> {
    return (await this.#newest(ref)).location
  }

  async movePointer(ref: TableRef, from: string | null, to: string): Promise<boolean> {
    const newest = await this.#newest(ref)
    return newest.location === from && this.#point(ref, newest.number + 1, to)
  }

  async dropPointer(ref: TableRef): Promise<void> {
    for (;;) {
      const newest = await this.#newest(ref)
      // A number of its own, so that a writer who has seen the table does not bring it back.
      if (newest.location === null || (await this.#point(ref, newest.number + 1, null))) return
    }
  }

  async tables(warehouse: string, namespace?: string): Promise<readonly CatalogEntry[]> {
    checkPart(warehouse, 'warehouse')
    if (namespace !== undefined) checkPart(namespace, 'namespace')
    const root = `${warehouse}/pointers`
    const names = new Set<string>()
    for await (const { path } of this.#store.list(namespace === undefined ? root : `${root}/${namespace}`)) {
      names.add(path.slice(root.length + 1, path.lastIndexOf('/')))
    }
    const entries: CatalogEntry[] = []
    for (const name of [...names].sort()) {
      const [of = '', table = ''] = name.split('/')
      const ref = { warehouse, namespace: of, table }
      const metadataLocation = await this.pointer(ref)
      if (metadataLocation !== null) entries.push({ ref, metadataLocation })
      if (entries.length === MAX_TABLES) break
    }
    return entries
  }

  async dropWarehouse(warehouse: string): Promise<void> {
    checkPart(warehouse, 'warehouse')
    await this.#store.removeAll(`${warehouse}/pointers`)
    await this.#store.removeAll(`${warehouse}/writes`)
  }

  async leaseWrite(ref: TableRef, writeId: string, leaseMs: number): Promise<void> {
    const path = leasePath(ref, writeId)
    const until = Math.max((await this.#leaseEnd(path)) ?? 0, this.#now() + leaseMs)
    await this.#store.put(path, Buffer.from(String(until)))
  }

  async endWrite(ref: TableRef, writeId: string): Promise<void> {
    await this.#store.remove(leasePath(ref, writeId))
  }

  async hasOpenWrites(ref: TableRef): Promise<boolean> {
    for await (const { path } of this.#store.list(folderOf('writes', ref))) {
      const until = await this.#leaseEnd(path)
      if (until !== null && until > this.#now()) return true
    }
    return false
  }

  async #leaseEnd(path: string): Promise<number | null> {
    const text = await this.#text(path)
    return text === null ? null : Number(text)
  }

  /** Null where there is no such file, or not any more. */
  async #text(path: string): Promise<string | null> {
    if ((await this.#store.stat(path)) === null) return null
    try {
      return Buffer.from(await this.#store.get(path, { maxBytes: MAX_FILE_BYTES })).toString('utf8')
    } catch (error) {
      if (isSluiceError(error) && error.code === 'object_missing') return null
      throw error
    }
  }

  async #newest(ref: TableRef): Promise<Pointer> {
    for (;;) {
      const number = await this.#newestNumber(ref)
      if (number === 0) return { number, location: null }
      const text = await this.#text(pointerPath(ref, number))
      // Gone since it was listed: so many others have moved the pointer, or all pointers were dropped.
      if (text !== null) return { number, location: text === '' ? null : text }
    }
  }

  async #newestNumber(ref: TableRef): Promise<number> {
    let newest = 0
    for await (const { path } of this.#store.list(folderOf('pointers', ref))) {
      newest = Math.max(newest, numberOf(path))
    }
    return newest
  }

  /** False where the number was taken by another. */
  async #point(ref: TableRef, number: number, location: string | null): Promise<boolean> {
    const path = pointerPath(ref, number)
    try {
      await this.#store.put(path, Buffer.from(location ?? '', 'utf8'), { ifAbsent: true })
    } catch (error) {
      if (isSluiceError(error) && error.code === 'object_exists') return false
      throw error
    }
    // The number may have been free only because its file, another's, was one of those that do not stay.
    if ((await this.#newestNumber(ref)) >= number + KEPT_POINTERS) {
      await this.#store.remove(path)
      return false
    }
    const gone = number - KEPT_POINTERS
    if (gone > 0) await this.#store.remove(pointerPath(ref, gone))
    return true
  }
}

function folderOf(kind: 'pointers' | 'writes', ref: TableRef): string {
  checkTableRef(ref)
  return `${ref.warehouse}/${kind}/${ref.namespace}/${ref.table}`
}

const pointerPath = (ref: TableRef, number: number): string =>
  `${folderOf('pointers', ref)}/${String(number).padStart(DIGITS, '0')}`

const numberOf = (path: string): number => Number(path.slice(path.lastIndexOf('/') + 1)) || 0

function leasePath(ref: TableRef, writeId: string): string {
  checkPart(writeId, 'write')
  return `${folderOf('writes', ref)}/${writeId}`
}
