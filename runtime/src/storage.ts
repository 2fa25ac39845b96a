/** The databases of this runtime: the embedded server's, or those that the configuration names. */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import type { Config } from './config.ts'
import { type DatabaseAddress, formatAddress, parseAddress } from './database/address.ts'
import { type EmbeddedServer, startEmbeddedServer } from './database/embedded-server.ts'
import { preparePlatformDatabases } from './database/roles.ts'

export interface Databases {
  readonly registry: DatabaseAddress
  /** Logins of the structured store; null where the stores' settings come from the configuration. */
  readonly serving: { readonly owner: string; readonly writer: string; readonly reader: string } | null
  readonly embedded: EmbeddedServer | null
}

export async function openDatabases(config: Config): Promise<Databases> {
  const { registry_url: registryUrl, ...urls } = config.database
  if (registryUrl !== undefined) {
    return { registry: parseAddress(registryUrl), serving: configuredLogins(urls), embedded: null }
  }
  const embedded = await startEmbeddedServer({ dataFolder: config.data_dir })
  try {
    const { registry, serving } = await preparePlatformDatabases(embedded.address)
    const logins = {
      owner: formatAddress(serving.owner),
      writer: formatAddress(serving.writer),
      reader: formatAddress(serving.reader),
    }
    return { registry, serving: logins, embedded }
  } catch (error) {
    await embedded.stop()
    throw error
  }
}

function configuredLogins(urls: Omit<Config['database'], 'registry_url'>): Databases['serving'] {
  const { serving_owner_url: owner, serving_writer_url: writer, serving_reader_url: reader } = urls
  if (owner === undefined && writer === undefined && reader === undefined) return null
  if (owner !== undefined && writer !== undefined && reader !== undefined) return { owner, writer, reader }
  throw new SluiceError('CONFIG', 'the structured store needs three logins', {
    code: 'invalid_config',
    remedy: 'Set database.serving_owner_url, serving_writer_url and serving_reader_url.',
  })
}

const KEY_BYTES = 32

/** The key that seals cursors: made once, so that a restart leaves clients' cursors valid. */
export async function cursorKey(dataDirectory: string): Promise<Uint8Array> {
  const path = join(dataDirectory, 'cursor.key')
  if (!existsSync(path)) await writeFile(path, randomBytes(KEY_BYTES), { mode: 0o600, flag: 'wx' })
  return readFile(path)
}
