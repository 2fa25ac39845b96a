import {
  checkPlanHash,
  checkReadPlan,
  type Health,
  type Host,
  isSluiceError,
  notMaterialized,
  type PlanStep,
  planOfSteps,
  type ReadBatch,
  type ReadPlan,
  type Row,
  type ServingStore,
  SluiceError,
  type Target,
  tenantOf,
} from '@sluice/sdk'
import { provisioned, provisionSteps } from '../duckdb/provisioning.ts'
import type { Registration, Registrations } from '../duckdb/registrations.ts'
import { register } from '../duckdb/writing.ts'
import { pageOf } from '../scan/page.ts'
import { compileScan } from '../scan/scan-sql.ts'
import { capabilities } from './capabilities.ts'
import { catalogOf, checkPlace, dropCatalog, ensureCatalog, tableOf } from './catalogs.ts'
import { rowOf } from './cells.ts'
import type { TrinoClient } from './client.ts'
import { trinoDialect } from './dialect.ts'
import type { TrinoSettings } from './settings.ts'

export interface StoreParts {
  readonly client: TrinoClient
  readonly settings: TrinoSettings
  /** Which snapshot each dataset serves. */
  readonly registrations: Registrations
  readonly host: Host
}

const PROBE_MS = 20_000

export function openStore({ client, settings, registrations, host }: StoreParts): ServingStore {
  let health: Health = { status: 'ok' }

  const guarded = async <T>(run: () => Promise<T>): Promise<T> => {
    try {
      const result = await run()
      health = { status: 'ok' }
      return result
    } catch (error) {
      const isTheirs = isSluiceError(error) && error.code !== 'store_failed'
      if (!isTheirs) health = { status: 'degraded', message: 'the last call did not reach its end' }
      if (isSluiceError(error)) throw error
      throw new SluiceError('TRANSIENT', 'the registrations of the analytics store cannot be read or written', {
        code: 'store_failed',
        remedy: 'Look for a full disk or missing rights in the log; the call is repeated.',
        cause: error,
      })
    }
  }

  return {
    provision: (target, mode, expectedHash) =>
      guarded(async () => {
        checkPlace(target)
        const plan = planOfSteps(provisionSteps(await registrations.get(target), target))
        if (mode === 'plan') return plan
        checkPlanHash(plan, expectedHash)
        await ensureCatalog(client, target.scope, settings.catalog)
        await registrations.update(target, (now) => provisioned(now, target))
        return plan
      }),

    rls: {
      install: (target, policy) =>
        guarded(() =>
          registrations.update(target, (now) => {
            if (now === null) throw notMaterialized()
            return { ...now, policy: { ...policy } }
          }),
        ),
      describe: (target) =>
        guarded(async () => {
          const policy = (await registrations.get(target))?.policy
          if (policy)
            return { ...policy, enforcedBy: `the catalog ${catalogOf(target.scope)} has this tenant’s tables` }
          throw new SluiceError('CONFLICT', 'no policy is in place', {
            code: 'policy_missing',
            remedy: 'Install the policy, then ask again.',
          })
        }),
    },

    write: (target, changes, commit) => guarded(() => register(registrations, host, target, changes, commit)),

    async *read(target, plan) {
      yield await guarded(async () => readPage(client, await registrations.get(target), target, plan))
    },

    recover: (target) => guarded(async () => (await registrations.get(target))?.current?.applied ?? null),

    drop: (target, mode) =>
      guarded(async () => {
        const isThere = (await registrations.get(target)) !== null
        if (mode === 'apply') await registrations.drop(target)
        const step: PlanStep = {
          action: 'drop',
          description: `forget ${target.domain}.${target.product}; the lake’s table stays`,
        }
        return planOfSteps(isThere ? [step] : [])
      }),

    dropTenant: (scope) =>
      guarded(async () => {
        await registrations.dropTenant(tenantOf(scope))
        await dropCatalog(client, scope)
      }),

    async probe(signal) {
      const isUp = await client.rows({ sql: 'SELECT 1', maxRows: 1, timeoutMs: PROBE_MS, signal }).then(
        () => true,
        () => false,
      )
      const message = isUp ? 'Trino carries out statements' : 'Trino does not answer, or does not let this runtime in'
      return { ok: isUp, checks: [{ name: 'statement', ok: isUp, message }] }
    },

    health: () => health,

    async close() {},
  }
}

/** One page of the registered snapshot. */
async function readPage(
  client: TrinoClient,
  registration: Registration | null,
  target: Target,
  plan: ReadPlan,
): Promise<ReadBatch> {
  checkReadPlan(plan, capabilities)
  if (plan.timeoutMs <= 0)
    throw new SluiceError('TRANSIENT', 'the read has no time left', { code: 'deadline_exceeded' })
  const current = registration?.current
  if (!registration || !current) throw notMaterialized()
  const { epoch } = current.applied
  if (registration.policy === null) return { ...pageOf([], [], plan), epoch }
  const present = new Set(current.schema.columns.map((column) => column.name))
  const dialect = trinoDialect(tableOf(target), current.snapshot.snapshotId)
  const { sql, selected } = compileScan({ schema: registration.schema, present }, plan, dialect)
  const { timeoutMs, signal } = plan
  const found = await client.rows({ sql, maxRows: plan.limit + 1, timeoutMs, signal })
  const rows: Row[] = found.map((cells) => rowOf(cells, selected))
  return { ...pageOf(rows, selected, plan), epoch }
}
