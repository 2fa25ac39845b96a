/**
 * What a start refuses of a configuration before it makes more than its folders, or opens anything; `sluice config --check` asks
 * nothing else. Each part is judged by the very function by which it is opened later. Whether servers answer is known when they
 * are asked.
 */
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import { EMBEDDED_ISSUER_PATH, type EmbeddedIssuer } from '../auth/embedded-issuer.ts'
import { issuerOfDashboards, type TrustedIssuer } from '../auth/issuers.ts'
import type { Config } from '../config.ts'
import { checkAddress } from '../http/server.ts'
import { createNetworkPolicy } from '../ingestion/network.ts'
import { networkOf } from '../operations/lineage/open-lineage/deliver.ts'
import { choosePlugins } from '../plugins/plugin-set.ts'
import { proofRules } from '../plugins/proof-rules.ts'
import type { ServiceSearch } from '../plugins/services.ts'
import { chosenComputes } from './compute.ts'
import { chosenDashboards } from './dashboard-server.ts'
import { chosenBus } from './event-bus.ts'
import { chosenDestinations, chosenStore } from './object-stores.ts'
import { defaultSettings } from './plugin-host.ts'
import { policyEndpoint } from './policy-endpoint.ts'
import { sourceRules } from './processes.ts'
import { checkDatabases, type Databases } from './storage.ts'
import { ownUrl, trustedIssuer } from './trusted-issuers.ts'

/** Throws CONFIG for the first part that a start would refuse. Makes nothing, asks no server, and may be repeated. */
export async function checkConfig(config: Config): Promise<void> {
  for (const folder of [config.data_dir, config.secrets_dir]) await checkFolder(folder)
  await checkAddress(config.host, 0)
  checkPublicUrl('public_url', config.public_url)
  checkPublicUrl('dashboards.public_url', config.dashboards?.public_url)
  const issuers = issuersOf(config)
  const serving = servingOf(config)
  const search = { specifiers: config.plugins, baseDirectory: process.cwd(), onLoaded: () => undefined }
  checkSources(config)
  await choosePlugins({
    ...search,
    serving: config.serving,
    proof: proofRules(config),
    wallConnector: (plugin) => plugin,
    defaultSettings: (plugin) => defaultSettings(plugin, { serving }),
  })
  if (config.object_store.type !== 'folder') await chosenStore(config, search)
  await chosenDestinations(config, search)
  await chosenBus(config, search)
  const computes = await chosenComputes(config, search)
  const engines = computes.map(({ plugin: { policy = null } }) => ({ policy }))
  await policyEndpoint(config, issuers, engines, search)
  await checkDashboards(config, issuers, serving, search)
  if (config.openlineage !== undefined) networkOf(config.openlineage)
  if (config.wire.port !== undefined) await (await import('./wire.ts')).wireTls(config.wire)
}

/** Throws what making it would where something else is there, or no folder is where it should lie; makes nothing. */
async function checkFolder(folder: string): Promise<void> {
  const found = await stat(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (found === null && dirname(folder) !== folder) return checkFolder(dirname(folder))
  if (found?.isDirectory() === false)
    throw Object.assign(new Error(`${folder} is no folder`), { code: 'EEXIST', syscall: 'mkdir', path: folder })
}

/** Of the server, as pages, links and tokens name it. */
function checkPublicUrl(key: string, url: string | undefined): void {
  if (url === undefined || (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol))) return
  throw new SluiceError('CONFIG', `${key} is no address that people could open`, {
    code: 'invalid_config',
    remedy: 'Write it as https://data.example.com.',
  })
}

/** Of the embedded issuer all that is known before its keys are there: its address, where the port is. */
function issuersOf(config: Config): readonly TrustedIssuer[] {
  const { issuers } = config.auth
  if (issuers.length > 0) return issuers.map(trustedIssuer)
  const issuer = `${ownUrl(config, config.port)}${EMBEDDED_ISSUER_PATH}`
  return [{ issuer } satisfies Pick<EmbeddedIssuer, 'issuer'> as TrustedIssuer]
}

const EMBEDDED = 'postgresql://sluice@localhost/sluice'

/** The logins of the embedded server are made with it: any stand for them. */
function servingOf(config: Config): Databases['serving'] {
  const configured = checkDatabases(config)
  if (config.database.registry_url !== undefined) return configured
  return { owner: EMBEDDED, writer: EMBEDDED, reader: EMBEDDED }
}

function checkSources(config: Config): void {
  createNetworkPolicy({
    allow: config.network.allow,
    allowLoopback: false,
    allowCleartextPasswords: false,
    ownEndpoints: () => [],
  })
  sourceRules(config)
}

async function checkDashboards(
  config: Config,
  issuers: readonly TrustedIssuer[],
  serving: Databases['serving'],
  search: ServiceSearch,
): Promise<void> {
  const { dashboards, database } = config
  if (dashboards === undefined) return
  await chosenDashboards(config, dashboards, search, { serving, isEmbedded: database.registry_url === undefined })
  issuerOfDashboards(issuers, dashboards.issuer)
}
