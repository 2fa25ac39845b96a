import {
  type CreateRequest,
  changedMetadata,
  commitConflict,
  creationUpdates,
  type ForeignCommit,
  type Lake,
  locationRefused,
  Manifests,
  type ObjectStore,
  stageForeign,
  type TableChange,
  type TableFiles,
  type TableMetadata,
  type TableRef,
  type TableState,
} from '@sluice/iceberg'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { registryCatalog } from '../lake/registry-catalog.ts'
import { SANDBOX, TENANT_LAYOUT } from '../lake/tenant-layout.ts'
import { checkTableName, folderForTable, newFolder, stagedFolder, stagedLease } from './folders.ts'
import {
  changeProperties,
  deleteSandbox,
  insertSandbox,
  lockNames,
  renameTable,
  sandboxProperties,
  sandboxTables,
} from './rows.ts'

export interface SandboxDeps {
  readonly pool: pg.Pool
  readonly store: ObjectStore
  readonly lake: Lake
  /** Milliseconds since 1970. */
  readonly nowMs: () => number
}

export interface CommittedTable {
  /** Null for a creation that is only staged. */
  readonly metadataLocation: string | null
  readonly metadata: TableMetadata
}

/** Runs in the transaction of the effect: the record of who did it. */
export type Witness = (tx: pg.PoolClient) => Promise<void>

/** How long a staged creation may take to its commit. */
const STAGED_MS = 6 * 60 * 60 * 1000

/** A change whose base another one replaced meanwhile is held against the new base, this often. */
const ATTEMPTS = 5

/**
 * The namespace of each tenant whose tables are plain: no product, no classes, no variants. Outside engines make and
 * change them through the catalog: they write the files, and ask for the change of metadata, which is checked here.
 */
export class Sandbox {
  readonly #deps: SandboxDeps
  readonly #manifests = new Manifests()

  constructor(deps: SandboxDeps) {
    this.#deps = deps
  }

  /** Null where the tenant has no sandbox. */
  properties(tenant: string): Promise<Readonly<Record<string, string>> | null> {
    return sandboxProperties(this.#deps.pool, tenant)
  }

  /** Throws CONFLICT `catalog_namespace_exists`. */
  async open(tenant: string, properties: Readonly<Record<string, string>>, witness: Witness): Promise<void> {
    await inTransaction(this.#deps.pool, async (tx) => {
      if (!(await insertSandbox(tx, tenant))) throw conflict('catalog_namespace_exists', 'the namespace exists already')
      await changeProperties(tx, tenant, properties)
      await witness(tx)
    })
  }

  /** Throws CONFLICT `catalog_namespace_not_empty`. */
  async close(tenant: string, witness: Witness): Promise<void> {
    await inTransaction(this.#deps.pool, async (tx) => {
      await lockNames(tx, tenant)
      if ((await sandboxTables(tx, tenant)).length > 0) {
        throw conflict('catalog_namespace_not_empty', 'the namespace has tables')
      }
      await deleteSandbox(tx, tenant)
      await witness(tx)
    })
  }

  /** Sets properties of the namespace; null removes one. */
  async change(tenant: string, properties: Readonly<Record<string, string | null>>, witness: Witness): Promise<void> {
    await inTransaction(this.#deps.pool, async (tx) => {
      await changeProperties(tx, tenant, properties)
      await witness(tx)
    })
  }

  /** Below which the folders of the tables lie. */
  location(tenant: string): string {
    return this.#deps.store.uri(`${TENANT_LAYOUT.folderOf(tenant)}/${SANDBOX}`)
  }

  load(ref: TableRef, signal: AbortSignal): Promise<TableState | null> {
    return this.#deps.lake.load(ref, { signal })
  }

  /**
   * Throws CONFLICT `catalog_table_exists`, INVALID_DATA for what may not be. A staged creation makes no table: it chooses
   * the folder, and keeps it from being cleaned for the hours that writing the first files may take.
   */
  async create(tenant: string, request: CreateRequest, witness: Witness, signal: AbortSignal): Promise<CommittedTable> {
    const ref = { warehouse: tenant, namespace: SANDBOX, table: request.name }
    checkTableName(ref.table)
    await this.#deps.lake.requireOwn(tenant)
    const files = this.#folderFor(ref, request.location ?? null)
    if ((await this.load(ref, signal)) !== null) throw tableExists()
    const change = { requirements: [{ type: 'assert-create' }], updates: creationUpdates(request) } as const
    if (request['stage-create'] === true) {
      const metadata = changedMetadata(files, null, change, this.#deps.nowMs())
      const lease = stagedLease(files)
      await this.#deps.lake.leaseWrite(lease.ref, lease.writeId, STAGED_MS)
      return { metadataLocation: null, metadata }
    }
    const commit = await stageForeign(this.#manifests, files, null, change, this.#deps.nowMs(), signal)
    await this.#publish(tenant, [commit], witness, tableExists)
    return { metadataLocation: commit.staged.to, metadata: commit.metadata }
  }

  /**
   * The files of a table that is being made, where `path` lies in the folder that its staged creation was given; null
   * where there was none, its time is over, or the table is there by now.
   */
  async staged(ref: TableRef, path: string): Promise<TableFiles | null> {
    const files = folderForTable(this.#deps.store, ref, path)
    return files !== null && (await this.#deps.lake.hasOpenWrites(stagedLease(files).ref)) ? files : null
  }

  /**
   * All changes, or none. Throws CONFLICT `lake_commit_conflict` where a requirement does not hold, INVALID_DATA for
   * what may not be, and `missing()` for a table that is not there.
   */
  async commit(
    changes: readonly (TableChange & { readonly ref: TableRef })[],
    missing: () => Error,
    witness: Witness,
    signal: AbortSignal,
  ): Promise<readonly CommittedTable[]> {
    const tenant = changes[0]?.ref.warehouse
    if (tenant === undefined) return []
    await this.#deps.lake.requireOwn(tenant)
    for (let attempt = 1; ; attempt += 1) {
      const commits: ForeignCommit[] = []
      for (const change of changes) commits.push(await this.#stage(change, missing, signal))
      try {
        await this.#publish(tenant, commits, witness, () => commitConflict('table-moved-on'))
        return commits.map(({ staged, metadata }) => ({ metadataLocation: staged.to, metadata }))
      } catch (error) {
        // Requirements are the client's own word on what may have changed meanwhile: they are asked again.
        if (attempt === ATTEMPTS || !isMovedOn(error)) throw error
      }
    }
  }

  async #stage(
    change: TableChange & { readonly ref: TableRef },
    missing: () => Error,
    signal: AbortSignal,
  ): Promise<ForeignCommit> {
    const base = await this.load(change.ref, signal)
    const creates = change.requirements.some(({ type }) => type === 'assert-create')
    if (base === null && !creates) throw missing()
    if (base !== null && creates) throw commitConflict('assert-create')
    const files = base?.files ?? this.#filesToMake(change)
    const commit = await stageForeign(this.#manifests, files, base, change, this.#deps.nowMs(), signal)
    // With the table its folder is known, and the lease of its making ends.
    return base === null ? { ...commit, staged: { ...commit.staged, writeId: stagedLease(files).writeId } } : commit
  }

  /** Some clients choose a folder below the namespace's: the table's name and 32 random digits, as ours are called. */
  #folderFor(ref: TableRef, location: string | null): TableFiles {
    const { store } = this.#deps
    if (location === null) return newFolder(store, ref)
    const files = stagedFolder(store, ref, location)
    if (folderForTable(store, ref, `${files.root}/`) === null) throw locationRefused()
    return files
  }

  #filesToMake({ ref, updates }: TableChange & { readonly ref: TableRef }): TableFiles {
    checkTableName(ref.table)
    const place = updates.find((update) => update.action === 'set-location')
    const { store } = this.#deps
    return place === undefined ? newFolder(store, ref) : stagedFolder(store, ref, place.location)
  }

  /** @param taken what is thrown where a table that shall be made is there */
  async #publish(
    tenant: string,
    commits: readonly ForeignCommit[],
    witness: Witness,
    taken: () => Error,
  ): Promise<void> {
    const made = commits.filter(({ staged }) => staged.from === null)
    try {
      await inTransaction(this.#deps.pool, async (tx) => {
        if (made.length > 0) await this.#reserve(tx, tenant, made, taken)
        await this.#deps.lake.publish(
          registryCatalog(tx),
          commits.map(({ staged }) => staged),
        )
        await witness(tx)
      })
    } catch (error) {
      // Of a transaction that was refused nothing points at these; how one that broke off has ended is not known.
      const isRefused = isSluiceError(error, 'CONFLICT') || isSluiceError(error, 'INVALID_DATA')
      if (!isRefused) throw error
      for (const { staged } of commits) {
        const path = this.#deps.store.pathOf(staged.to)
        // What stays is an orphan, which the next cleaning removes.
        if (path !== null) await this.#deps.store.remove(path).catch(() => undefined)
      }
      throw error
    }
  }

  /** Names are taken whatever their case, and folders belong to one table. */
  async #reserve(tx: pg.PoolClient, tenant: string, made: readonly ForeignCommit[], taken: () => Error): Promise<void> {
    await lockNames(tx, tenant)
    if ((await sandboxProperties(tx, tenant)) === null) throw noSandbox()
    const tables = await sandboxTables(tx, tenant)
    for (const { staged, metadata } of made) {
      if (tables.some(({ table }) => table.toLowerCase() === staged.ref.table.toLowerCase())) throw taken()
      if (tables.some(({ metadataLocation }) => metadataLocation.startsWith(`${metadata.location}/`))) {
        throw locationRefused()
      }
    }
  }

  /** Throws CONFLICT `catalog_table_exists` and `missing()`. The files stay where they are. */
  async rename(ref: TableRef, name: string, missing: () => Error, witness: Witness): Promise<void> {
    checkTableName(name)
    await inTransaction(this.#deps.pool, async (tx) => {
      await lockNames(tx, ref.warehouse)
      const tables = await sandboxTables(tx, ref.warehouse)
      if (!tables.some(({ table }) => table === ref.table)) throw missing()
      const others = tables.filter(({ table }) => table !== ref.table)
      if (others.some(({ table }) => table.toLowerCase() === name.toLowerCase())) throw tableExists()
      await renameTable(tx, ref, name)
      await witness(tx)
    })
  }

  /** Removes the table with its files: a file without a table would be counted by nobody. Throws `missing()`. */
  async drop(ref: TableRef, missing: () => Error, witness: Witness, signal: AbortSignal): Promise<void> {
    const { lake, pool, store } = this.#deps
    await lake.requireOwn(ref.warehouse)
    const state = await this.load(ref, signal)
    if (state === null) throw missing()
    await inTransaction(pool, async (tx) => {
      await lockNames(tx, ref.warehouse)
      const tables = await sandboxTables(tx, ref.warehouse)
      const inFolder = `${state.files.location}/`
      const isSame = ({ table, metadataLocation }: (typeof tables)[number]) =>
        table === ref.table && metadataLocation.startsWith(inFolder)
      if (!tables.some(isSame)) throw missing()
      await registryCatalog(tx).dropPointer(ref)
      await witness(tx)
    })
    await store.removeAll(state.files.root)
  }
}

function isMovedOn(error: unknown): boolean {
  return isSluiceError(error) && error.code === 'lake_commit_conflict' && error.details?.['reason'] === 'table-moved-on'
}

const tableExists = () => conflict('catalog_table_exists', 'a table of that name exists already')

function noSandbox(): SluiceError {
  return new SluiceError('INVALID_DATA', 'there is no such namespace', {
    code: 'catalog_namespace_not_found',
    remedy: 'List the namespaces; "sandbox" is made by creating it.',
  })
}

function conflict(
  code: 'catalog_table_exists' | 'catalog_namespace_exists' | 'catalog_namespace_not_empty',
  text: string,
) {
  return new SluiceError('CONFLICT', text, { code, remedy: 'Choose another name, or drop what is there first.' })
}
