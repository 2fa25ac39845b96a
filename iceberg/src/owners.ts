/**
 * Whose a warehouse's bucket is. The catalog and the bucket hold the same mark. Where they do not, either is not the one that
 * the other belongs to: nothing is written then, and nothing removed, until they fit again.
 */
import { randomUUID } from 'node:crypto'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { BucketOwner, BucketState, Catalog } from './catalog.ts'
import type { ObjectStore } from './store/object-store.ts'
import { checkPart } from './table-ref.ts'

/**
 * `unclaimed`: made by a release without marks, or empty as the catalog has it. `emptied`: nothing is there, and the
 * catalog knows tables. `foreign`: files of another installation, or such as the catalog does not know.
 */
export type Belonging = 'own' | 'unclaimed' | 'emptied' | 'foreign'

/** What the catalog holds and what the bucket does: marks, null where there is none. */
interface Compared {
  readonly belonging: Belonging
  readonly owner: BucketOwner | null
  readonly found: string | null
}

/** As long as a bucket that was right is not looked at again by those who write to it. */
const RIGHT_FOR_MS = 5_000
/** Tables that are looked for in a bucket without a mark. One that is there tells that it is the right one. */
const TABLES_LOOKED_FOR = 20

/** Beside the folders of namespaces: none has a dot in its name. */
const MARK = 'owner.json'

export class LakeOwners {
  readonly #store: ObjectStore
  readonly #catalog: Catalog
  readonly #rightUntilMs = new Map<string, number>()

  constructor(store: ObjectStore, catalog: Catalog) {
    this.#store = store
    this.#catalog = catalog
  }

  /** Makes the bucket of a new warehouse. Repeatable. Throws CONFLICT `lake_foreign` where one is there that has files. */
  async claim(warehouse: string): Promise<void> {
    checkPart(warehouse, 'warehouse')
    if (this.#catalog.owners === undefined) return this.#store.ensureBucket(this.#bucket(warehouse))
    const owner = await this.#owner(warehouse)
    const found = await this.#mark(warehouse)
    if (found !== null && found === owner?.mark) return
    if (found !== null || (await this.#hasFiles(warehouse))) throw notOwn('foreign')
    await this.#store.ensureBucket(this.#bucket(warehouse))
    await this.#setMark(warehouse, owner?.mark ?? randomUUID())
  }

  /** Looks, and notes what it finds; a bucket without a mark that is the right one is given its mark. */
  async look(warehouse: string): Promise<Exclude<Belonging, 'unclaimed'>> {
    const { belonging, owner, found } = await this.#compare(warehouse)
    if (belonging === 'unclaimed') {
      const mark = found ?? owner?.mark ?? randomUUID()
      await this.#store.ensureBucket(this.#bucket(warehouse))
      await this.#setMark(warehouse, mark)
      return 'own'
    }
    await this.#note(warehouse, owner, belonging)
    return belonging
  }

  /** Before anything is written or removed. Throws CONFLICT `lake_emptied`, `lake_foreign`. */
  async require(warehouse: string): Promise<void> {
    const nowMs = performance.now()
    if ((this.#rightUntilMs.get(warehouse) ?? 0) > nowMs) return
    const { belonging, owner } = await this.#compare(warehouse)
    if (belonging === 'emptied' || belonging === 'foreign') {
      await this.#note(warehouse, owner, belonging)
      throw notOwn(belonging)
    }
    // What was noted of it before holds no more: it was put back, or everything in it was made anew.
    if (owner?.state === 'emptied' || owner?.state === 'foreign') await this.#note(warehouse, owner, 'own')
    this.#rightUntilMs.set(warehouse, nowMs + RIGHT_FOR_MS)
  }

  /**
   * As `require`, and looks anew: whoever replaces all that a table has reads nothing of it, and would not notice that the bucket
   * has gone since somebody looked.
   */
  requireNow(warehouse: string): Promise<void> {
    this.#rightUntilMs.delete(warehouse)
    return this.require(warehouse)
  }

  /** True where what is to be removed may be. Looks anew. */
  async mayRemove(warehouse: string): Promise<boolean> {
    this.#rightUntilMs.delete(warehouse)
    const { belonging } = await this.#compare(warehouse)
    return belonging === 'own' || belonging === 'unclaimed'
  }

  /** A file that cannot be read, or the cause of it: the whole bucket is not there, or is not this warehouse's. */
  async explain(warehouse: string, error: unknown): Promise<unknown> {
    if (!isSluiceError(error) || error.code !== 'lake_file_corrupted') return error
    // A store or a registry that does not answer either explains nothing.
    const { belonging } = (await this.#compare(warehouse).catch(() => null)) ?? {}
    return belonging === 'emptied' || belonging === 'foreign' ? notOwn(belonging, error) : error
  }

  /** Whether the bucket may be removed with all that is in it, as long as the registry has the warehouse's pointers. */
  async beginDrop(warehouse: string): Promise<boolean> {
    checkPart(warehouse, 'warehouse')
    this.#rightUntilMs.delete(warehouse)
    const isToGo = await this.#isToGo(warehouse)
    // The mark may be the first of the files that go, and who tries again is not to take the rest for another's.
    if (isToGo) await this.#catalog.owners?.keep(warehouse, { state: 'dropping' })
    return isToGo
  }

  async #isToGo(warehouse: string): Promise<boolean> {
    if (this.#catalog.owners === undefined) return true
    const owner = await this.#owner(warehouse)
    const found = await this.#mark(warehouse)
    // Another's mark alone holds nothing that could be lost: it may have been made, too late, beside this removal.
    if (found !== null) return found === owner?.mark || !(await this.#hasFiles(warehouse, this.#markPath(warehouse)))
    return (
      owner?.state === 'dropping' || !(await this.#hasFiles(warehouse)) || (await this.#holdsTables(warehouse)) === true
    )
  }

  async #compare(warehouse: string): Promise<Compared> {
    checkPart(warehouse, 'warehouse')
    if (this.#catalog.owners === undefined) return { belonging: 'own', owner: null, found: null }
    const owner = await this.#owner(warehouse)
    const found = await this.#mark(warehouse)
    const isOwn = found !== null && found === owner?.mark
    return { owner, found, belonging: isOwn ? 'own' : await this.#belongingOf(warehouse, owner?.mark ?? null, found) }
  }

  /** By its tables, where the marks are not equal. */
  async #belongingOf(warehouse: string, mark: string | null, found: string | null): Promise<Belonging> {
    const holds = await this.#holdsTables(warehouse)
    // One of the two is from before there were marks.
    if (holds === true) return mark === null || found === null ? 'unclaimed' : 'foreign'
    if (found !== null) return 'foreign'
    const hasFiles = await this.#hasFiles(warehouse)
    if (holds === false) return hasFiles ? 'foreign' : 'emptied'
    return hasFiles && mark !== null ? 'foreign' : 'unclaimed'
  }

  /** Null where the catalog knows no table of the warehouse. */
  async #holdsTables(warehouse: string): Promise<boolean | null> {
    const tables = (await this.#catalog.tables(warehouse)).slice(0, TABLES_LOOKED_FOR)
    for (const { metadataLocation } of tables) {
      const path = this.#store.pathOf(metadataLocation)
      if (path?.startsWith(`${this.#bucket(warehouse)}/`) && (await this.#store.stat(path)) !== null) return true
    }
    return tables.length === 0 ? null : false
  }

  async #hasFiles(warehouse: string, beside?: string): Promise<boolean> {
    for await (const { path } of this.#store.list(this.#bucket(warehouse))) if (path !== beside) return true
    return false
  }

  async #mark(warehouse: string): Promise<string | null> {
    let text: string
    try {
      text = Buffer.from(await this.#store.get(this.#markPath(warehouse), { maxBytes: 1_000 })).toString('utf8')
    } catch (error) {
      if (isSluiceError(error) && error.code === 'object_missing') return null
      if (isSluiceError(error) && error.kind === 'INTERNAL') return UNREADABLE
      throw error
    }
    return /^\{"mark":"([0-9a-f-]{36})"\}$/.exec(text)?.[1] ?? UNREADABLE
  }

  /** The catalog first: a bucket with a mark that nobody knows would be another's. */
  async #setMark(warehouse: string, wanted: string): Promise<void> {
    await this.#catalog.owners?.keep(warehouse, { mark: wanted, state: 'own' })
    // Of two that claim it at once both write the mark of the one that the catalog has kept.
    const mark = (await this.#owner(warehouse))?.mark ?? wanted
    const body = Buffer.from(JSON.stringify({ mark }), 'utf8')
    await this.#store.put(this.#markPath(warehouse), body, { ifAbsent: true }).catch((error: unknown) => {
      if (!isSluiceError(error) || error.code !== 'object_exists') throw error
    })
    if ((await this.#mark(warehouse)) !== mark) throw notOwn('foreign')
  }

  #bucket(warehouse: string): string {
    return this.#catalog.layout.bucketOf(warehouse)
  }

  #markPath(warehouse: string): string {
    return `${this.#catalog.layout.folderOf(warehouse)}/${MARK}`
  }

  async #owner(warehouse: string): Promise<BucketOwner | null> {
    return (await this.#catalog.owners?.find(warehouse)) ?? null
  }

  async #note(warehouse: string, owner: BucketOwner | null, state: BucketState): Promise<void> {
    if (owner?.state !== state) await this.#catalog.owners?.keep(warehouse, { state })
  }
}

/** Nobody's mark. */
const UNREADABLE = 'unreadable'

export const BUCKET_PROBLEMS = {
  emptied: {
    code: 'lake_emptied',
    message: "the tenant's bucket is empty or gone, and the registry knows tables in it",
    remedy:
      'Put the bucket back as it was, or stop a runtime whose data folder is not the one that the lake lies in: several runtimes share an object store. Until then nothing is written, and stores serve what they have. If it is lost for good, delete products and connections, and make them anew.',
  },
  foreign: {
    code: 'lake_foreign',
    message: "the tenant's bucket holds files of another installation, or such as the registry does not know",
    remedy:
      'Let the operator name the right store under object_store, put back the registry that belongs to the bucket, or move its files elsewhere. Nothing in it is changed until then.',
  },
} as const

function notOwn(belonging: keyof typeof BUCKET_PROBLEMS, cause?: unknown): SluiceError {
  const { code, message, remedy } = BUCKET_PROBLEMS[belonging]
  return new SluiceError('CONFLICT', message, { code, remedy, ...(cause === undefined ? {} : { cause }) })
}
