/** What this runtime keeps its data in: databases and the lake's object store, embedded or as the configuration names. */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { link, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Engine, TenantFolders } from '@sluice/engine'
import { BucketStore, FolderStore, type ObjectStore, withObjects } from '@sluice/iceberg'
import { type Buckets, isSluiceError, type Logger, SluiceError } from '@sluice/sdk'
import type { Config } from '../config.ts'
import { type DatabaseAddress, formatAddress, parseAddress } from '../database/address.ts'
import { type KeptServer, startKeptServer } from '../database/kept-server.ts'
import { checkSessions } from '../database/kept-sessions.ts'
import { closeServersDatabases, preparePlatformDatabases } from '../database/roles.ts'
import { bucketName, scratchOfTenants } from '../lake/tenant-layout.ts'
import type { ServiceParts } from '../plugins/services.ts'
import { openBuckets } from './object-stores.ts'
import { foldersOf, ONLY_PROCESS, type ProcessFolders } from './process-shares.ts'

export interface Databases {
  readonly registry: DatabaseAddress
  /** Logins of the structured store; null where the stores' settings come from the configuration. */
  readonly serving: { readonly owner: string; readonly writer: string; readonly reader: string } | null
  readonly embedded: KeptServer | null
}

/** Of the embedded server: for the pools of one process, and of each more that serves. */
const SESSIONS = 200
const SESSIONS_OF_FURTHER = 80

export async function openDatabases(config: Config, logger: Logger): Promise<Databases> {
  const { registry_url: registryUrl, ...urls } = config.database
  if (registryUrl !== undefined) {
    return { registry: parseAddress(registryUrl), serving: configuredLogins(urls), embedded: null }
  }
  const settings = { max_connections: String(SESSIONS + SESSIONS_OF_FURTHER * (config.http.processes - 1)) }
  const embedded = await startKeptServer({ dataFolder: config.data_dir, settings }, logger)
  try {
    await closeServersDatabases(embedded.address)
    const { registry, serving } = await preparePlatformDatabases(embedded.address)
    const logins = {
      owner: formatAddress(serving.owner),
      writer: formatAddress(serving.writer),
      reader: formatAddress(serving.reader),
    }
    return { registry, serving: logins, embedded }
  } catch (error) {
    await embedded.stop()
    throw isSluiceError(error) && error.code === 'database_missing' ? notWhole(error) : error
  }
}

/** A database that it lists has no files: nobody dropped it. */
function notWhole(cause: SluiceError): SluiceError {
  return new SluiceError('CONFIG', 'the embedded PostgreSQL lacks the files of a database', {
    code: 'postgres_folder_broken',
    remedy: 'Put the whole data folder back from a backup that was made while nothing ran on it.',
    cause,
  })
}

function configuredLogins(urls: Config['database']): Databases['serving'] {
  const { serving_owner_url: owner, serving_writer_url: writer, serving_reader_url: reader } = urls
  if (owner === undefined && writer === undefined && reader === undefined) return null
  if (owner !== undefined && writer !== undefined && reader !== undefined) return { owner, writer, reader }
  throw new SluiceError('CONFIG', 'the structured store needs three logins', {
    code: 'invalid_config',
    remedy: 'Set database.serving_owner_url, serving_writer_url and serving_reader_url.',
  })
}

/** Throws CONFIG for an address that is none, and where of the logins of the structured store not all are named. */
export function checkDatabases({
  database: { catalog_admin_url: catalogAdmin, ...database },
}: Pick<Config, 'database'>) {
  const logins = database.registry_url === undefined ? null : configuredLogins(database)
  for (const url of [database.registry_url, catalogAdmin, ...Object.values(logins ?? {})]) {
    if (url !== undefined) parseAddress(url)
  }
  return logins
}

/** Throws CONFIG `database_pooled`. What does not keep the runtime from working is logged. */
export async function tellSessions(address: DatabaseAddress, logger: Logger): Promise<void> {
  const { keepSettings } = await checkSessions(address)
  if (keepSettings) return
  logger.warn('a pooler before the registry does not pass on the settings that its sessions ask for', {
    remedy:
      'Name PostgreSQL itself in database.registry_url; else nothing may be set for its role or database, as a search path or a time-out.',
  })
}

const lakeFolder = ({ data_dir: dataDirectory }: Config) => join(dataDirectory, 'lake')

/** What of this machine's disk each tenant has for itself. */
export function tenantFolders(config: Config, { scratch, lakeCache }: ProcessFolders): TenantFolders {
  const { files, workspaces } =
    config.object_store.type === 'folder' ? FolderStore.foldersOf(lakeFolder(config)) : BucketStore.foldersOf(lakeCache)
  return { read: [files], written: [workspaces, scratchOfTenants(scratch)] }
}

export interface OpenedObjectStore {
  readonly store: ObjectStore
  /** What a plugin has opened; null for a folder. */
  readonly buckets: Buckets | null
  /** The engine for jobs that read the store's files. */
  engineOver(engine: Engine): Engine
  /**
   * Of a folder. `moved`: it lies elsewhere than when `keepPlace` was called last. `absent`: nothing is in it, and the catalog
   * knows of one that lies elsewhere, as for a runtime that shares a registry and not the folder.
   */
  readonly place: 'known' | 'moved' | 'absent'
  keepPlace(): Promise<void>
  /** Of one tenant, on this machine's disk and in this process's folders; of a folder there are none. */
  forgetCopies(tenant: string): Promise<void>
  close(): Promise<void>
}

const MB = 1024 * 1024

/**
 * The lake's object store. What a crash left half-written in this process's folders is removed; of a folder the first process
 * does that, before the others begin.
 * @param addresses of the store, as the catalog has them
 */
export async function openObjectStore(
  config: Config,
  addresses: readonly string[],
  services: ServiceParts,
  { folders, isFirst } = { folders: foldersOf(config, ONLY_PROCESS), isFirst: true },
): Promise<OpenedObjectStore> {
  if (config.object_store.type === 'folder') {
    const store = new FolderStore(lakeFolder(config))
    if (isFirst) await store.recover()
    const isElsewhere = await store.findPlaces(addresses)
    const place = !isElsewhere ? 'known' : (await isEmpty(store)) ? 'absent' : 'moved'
    // Whatever comes into an empty one has been moved there.
    const keepPlace = place === 'absent' ? async () => {} : () => store.keepPlace()
    const own = { store, buckets: null, place, keepPlace } as const
    return { ...own, engineOver: (engine) => engine, forgetCopies: async () => {}, close: async () => {} }
  }
  const { service: buckets, close } = await openBuckets(config, services)
  const maxCacheBytes = (config.object_store.cache_mb ?? 0) * MB
  const store = new BucketStore({ buckets, cacheDir: folders.lakeCache, maxCacheBytes })
  await store.recover()
  return {
    ...({ store, buckets, place: 'known', close } as const),
    keepPlace: async () => {},
    engineOver: (engine) => withObjects(engine, store.cache),
    forgetCopies: (tenant) => store.cache.forgetIn(bucketName(tenant)),
  }
}

async function isEmpty(store: ObjectStore): Promise<boolean> {
  for await (const _ of store.list('')) return false
  return true
}

const KEY_BYTES = 32

/**
 * The key that seals cursors: made once, so that a restart leaves clients' cursors valid, and those of one runtime are
 * good at another. Of several processes that start at once one makes it.
 */
export async function cursorKey(secretsDirectory: string): Promise<Uint8Array> {
  const path = join(secretsDirectory, 'cursor.key')
  if (existsSync(path)) return readCursorKey(path)
  const staging = `${path}.${randomBytes(6).toString('hex')}`
  await writeFile(staging, randomBytes(KEY_BYTES), { mode: 0o600, flag: 'wx', flush: true })
  try {
    await link(staging, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    await rm(staging, { force: true })
  }
  return readCursorKey(path)
}

async function readCursorKey(path: string): Promise<Uint8Array> {
  const key = await readFile(path)
  if (key.length === KEY_BYTES) return key
  throw new SluiceError('CONFIG', `the key that seals cursors does not have ${KEY_BYTES} bytes: ${path}`, {
    code: 'cursor_key_invalid',
    remedy: 'Put the file back, or remove it: a new one is made, and cursors that clients hold are good no more.',
  })
}
