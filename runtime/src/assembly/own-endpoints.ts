/** Where the platform's own servers are, as its configuration names them. */

import { isIP } from 'node:net'
import { POLICY_KEY } from '../config/servers-beside.ts'
import type { Config } from '../config.ts'

export interface Endpoint {
  readonly address: string
  /** Null: every one, since the address does not say which. */
  readonly port: number | null
}

const DEFAULT_PORTS: Readonly<Record<string, number>> = {
  'http:': 80,
  'https:': 443,
  'postgres:': 5432,
  'postgresql:': 5432,
  'redis:': 6379,
  'rediss:': 6379,
}

/** Schemes of files: what stands where a host would, names a bucket. */
const OF_FILES = /^(?:file|s3[an]?|gs|oss|abfss?|wasbs?):$/
const HOST = /^[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?\.?$/i

/**
 * What no tenant's connection may reach, whatever else is allowed: this server, its databases and all other servers that
 * it works with. A plugin's settings are its own, so that of each of them every text counts that is an address.
 */
export function ownEndpoints(config: Config, embedded: { host: string; port: number } | null): readonly Endpoint[] {
  const {
    database,
    object_store,
    exports,
    serving,
    events,
    compute,
    [POLICY_KEY]: policy,
    dashboards,
    openlineage,
    wire,
  } = config
  const settings = Object.values(serving).map((driver) => driver.settings)
  const others = [exports.destinations, events, compute, dashboards, openlineage?.url]
  const urls = textsIn([database, object_store, settings, ...others]).flatMap(endpointsOf)
  const { database_host: host, database_port: port = DEFAULT_PORTS['postgres:'] as number } = dashboards ?? {}
  return [
    ...urls,
    ...(host === undefined ? [] : [{ address: host, port }]),
    ...(policy.policy_cert_file === undefined ? [] : [{ address: policy.policy_host, port: policy.policy_port }]),
    ...(embedded === null ? [] : [{ address: embedded.host, port: embedded.port }]),
    { address: config.host, port: config.port },
    ...(wire.port === undefined ? [] : [{ address: wire.host, port: wire.port }]),
  ]
}

function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

/** `host:port` alone, as lists of servers have it, the last perhaps with what a URL ends with; an address with colons stands in brackets. */
const HOST_AND_PORT = /^(?:\[[0-9a-f:.]+\]|[^\s:/@,[\]]+):\d{1,5}(?:[/?#].*)?$/i

/** The servers that a text names, by a URL or as a list of such texts; none for any other, a socket's folder among them. */
function endpointsOf(text: string): readonly Endpoint[] {
  const whole = endpointOf(text)
  return whole.length > 0 ? whole : text.split(',').flatMap((one) => endpointOf(one.trim()))
}

function endpointOf(text: string): readonly Endpoint[] {
  const plain = HOST_AND_PORT.test(text) ? `tcp://${text}` : text.replace(/^jdbc:/, '')
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(plain) || !URL.canParse(plain)) return []
  const url = new URL(plain)
  const host = url.searchParams.get('host') ?? decodeURIComponent(url.hostname)
  const port = url.port === '' ? (DEFAULT_PORTS[url.protocol] ?? null) : Number(url.port)
  if (OF_FILES.test(url.protocol) || !(HOST.test(host) || isIP(host.replace(/^\[|\]$/g, '')))) return []
  return [{ address: host.replace(/^\[(.*)\]$/, '$1'), port }]
}
