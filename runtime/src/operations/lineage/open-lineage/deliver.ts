/**
 * Tells the operator's OpenLineage endpoint of runs: each tenant is a job, which tells what waits in its order. What cannot be
 * delivered is tried again, ever more seldom, until it is too old or too much. See docs/decisions/0199-openlineage.md.
 */
import { isIP } from 'node:net'
import { isSluiceError, type NetworkPolicy, SluiceError } from '@sluice/sdk'
import type { Config } from '../../../config.ts'
import { answerTo } from '../../../events/post-json.ts'
import { createNetworkPolicy } from '../../../ingestion/network.ts'
import { askForJobs, type NextDue } from '../../../jobs/claims.ts'
import type { JobKind, JobSource } from '../../../jobs/worker.ts'
import type { OpenLineageCounts } from '../../../metrics/openlineage.ts'
import { connectionsNamed } from '../../../registry/connections.ts'
import {
  dropWaiting,
  forgetOpenLineage,
  nextWaiting,
  noteEnded,
  noteRefused,
  noteTold,
  OPENLINEAGE_JOB,
  tenantsToTell,
  unendedRuns,
  type WaitingRun,
} from '../../../registry/openlineage-runs.ts'
import type { LineageDeps } from '../deps.ts'
import type { Naming } from './dataset-names.ts'
import { runEvent } from './run-event.ts'
import { endOf, type ToldRunDeps, toldRun } from './told-run.ts'

/** Up to minutes: an endpoint that is away is away for all tenants, each of which tries. */
const BACK_OFF = { firstMs: 2_000, lastMs: 300_000 } as const
const POLL_MS = 30_000
/** Of one tenant; then others have their turn. */
const AT_ONCE = 20
const ENDS_AT_ONCE = 200
/** Answers that say of an event that it is not valid, or too large: trying again for a week would hold up all after it. */
const INVALID: ReadonlySet<number> = new Set([400, 413, 422])
const MOST_REFUSALS = 5

export type OpenLineageSettings = NonNullable<Config['openlineage']>

export interface DeliverDeps extends ToldRunDeps {
  readonly settings: OpenLineageSettings
  readonly network: NetworkPolicy
  /** The runtime's own. */
  readonly release: string
  readonly counts: OpenLineageCounts
}

/** Null, and nothing is kept: no endpoint is configured. Throws CONFIG `invalid_config`. */
export async function openLineage(
  platform: LineageDeps,
  release: string,
  counts: OpenLineageCounts,
): Promise<{ readonly kind: JobKind; readonly source: JobSource } | null> {
  const { config, pool, lake, rules } = platform
  const settings = config.openlineage
  if (settings === undefined) {
    await forgetOpenLineage(pool)
    return null
  }
  const deps = { pool, lake, rules, settings, network: networkOf(settings), release, counts }
  return {
    kind: {
      kind: OPENLINEAGE_JOB,
      failed: 'OpenLineage events could not be delivered; it is tried again',
      backOff: BACK_OFF,
      work: ({ key }, signal) => deliver(deps, key, signal),
    },
    source: {
      everyMs: POLL_MS,
      async enlist() {
        const tenants = await tenantsToTell(pool)
        await askForJobs(
          pool,
          tenants.map((tenant) => ({ kind: OPENLINEAGE_JOB, key: tenant, tenant })),
        )
      },
    },
  }
}

/**
 * The operator says where it is, so that private networks are his to choose, and `network.allow`, which is for tenants, need
 * not name them. What is never a server of anybody's stays refused.
 */
export function networkOf({ url, allow_http: allowHttp }: OpenLineageSettings): NetworkPolicy {
  const { protocol, hostname } = new URL(url)
  const isLocal =
    hostname === 'localhost' || hostname === '[::1]' || (isIP(hostname) === 4 && hostname.startsWith('127.'))
  if (protocol === 'http:' && !allowHttp && !isLocal) {
    throw new SluiceError('CONFIG', 'the configuration is not valid: openlineage.url is not encrypted', {
      code: 'invalid_config',
      remedy: 'Use https://, or set openlineage.allow_http.',
    })
  }
  return createNetworkPolicy({
    allow: ['0.0.0.0/0', '::/0'],
    allowLoopback: true,
    allowCleartextPasswords: allowHttp,
    ownEndpoints: () => [],
  })
}

/** Repeatable: a receiver knows by the run and the kind of event what it was told before. */
export async function deliver(deps: DeliverDeps, tenant: string, signal: AbortSignal): Promise<NextDue> {
  const { pool, settings, counts } = deps
  for (const run of await unendedRuns(pool, tenant, ENDS_AT_ONCE)) await noteEnded(pool, run, endOf(run))
  const bounds = { hours: settings.keep_hours, most: settings.keep_runs }
  const { tooOld, tooMany } = await dropWaiting(pool, tenant, bounds)
  counts.dropped('age', tooOld)
  counts.dropped('count', tooMany)
  for (let told = 0; told < AT_ONCE; told += 1) {
    signal.throwIfAborted()
    const waiting = await nextWaiting(pool, tenant)
    if (waiting === null) return null
    await tell(deps, waiting, signal)
  }
  return { from: 'end', ms: 0 }
}

/** Throws TRANSIENT `openlineage_unreachable`, `openlineage_refused`. */
async function tell(deps: DeliverDeps, waiting: WaitingRun, signal: AbortSignal): Promise<void> {
  const { pool, settings, network, release, counts } = deps
  const told = await toldRun(deps, waiting, signal)
  const naming = await namingFor(deps, waiting.tenant, told.manifests?.inputs.map(({ connection }) => connection) ?? [])
  const body = JSON.stringify(runEvent(told, naming, release))
  const headers = settings.api_key === undefined ? {} : { authorization: `Bearer ${settings.api_key}` }
  const { status } = await answerTo({ url: settings.url, body, headers }, network, signal).catch((cause: unknown) => {
    if (signal.aborted || isSluiceError(cause)) throw cause
    throw failed('openlineage_unreachable', 'the OpenLineage endpoint does not answer', cause)
  })
  const isTaken = status >= 200 && status < 300
  if (!isTaken) await refuse(deps, waiting, status)
  if (isTaken) counts.sent()
  else counts.dropped('refused', 1)
  await noteTold(pool, waiting)
}

/** Throws, unless the event has been called invalid so often that it is to be given up. */
async function refuse({ pool }: DeliverDeps, waiting: WaitingRun, status: number): Promise<void> {
  if (INVALID.has(status)) {
    if (waiting.refusals + 1 >= MOST_REFUSALS) return
    await noteRefused(pool, waiting)
  }
  throw failed('openlineage_refused', `the OpenLineage endpoint answers ${status}`)
}

async function namingFor(
  { pool, settings }: DeliverDeps,
  tenant: string,
  connections: readonly string[],
): Promise<Naming> {
  const told = settings.source_hosts ? await connectionsNamed(pool, tenant, connections) : []
  return { prefix: settings.namespace, tenant, told: new Map(told.map((one) => [one.name, one])) }
}

function failed(code: string, message: string, cause?: unknown): SluiceError {
  return new SluiceError('TRANSIENT', message, {
    code,
    remedy: 'Look at who listens at openlineage.url; it is tried again until openlineage.keep_hours are over.',
    cause,
  })
}
