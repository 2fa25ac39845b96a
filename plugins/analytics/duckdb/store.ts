import {
  checkPlanHash,
  type Health,
  type Host,
  isSluiceError,
  type LakeQuery,
  notMaterialized,
  type PlanStep,
  planOfSteps,
  type ServingStore,
  SluiceError,
  type TenantScope,
  tenantOf,
  unsupported,
} from '@sluice/sdk'
import { provisioned, provisionSteps } from './provisioning.ts'
import { readPage } from './reading.ts'
import { filesOf, type Registrations } from './registrations.ts'
import { register } from './writing.ts'

const ENFORCED_BY = 'a statement’s engine is given the files of its tenant’s registrations and no others'

export function openStore(registrations: Registrations, host: Host): ServingStore {
  let health: Health = { status: 'ok' }

  const guarded = async <T>(run: () => Promise<T>): Promise<T> => {
    try {
      const result = await run()
      health = { status: 'ok' }
      return result
    } catch (error) {
      if (isSluiceError(error)) throw error
      health = { status: 'degraded', message: 'the last call could not read or write its registrations' }
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
        const plan = planOfSteps(provisionSteps(await registrations.get(target), target))
        if (mode === 'plan') return plan
        checkPlanHash(plan, expectedHash)
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
          if (policy) return { ...policy, enforcedBy: ENFORCED_BY }
          throw new SluiceError('CONFLICT', 'no policy is in place', {
            code: 'policy_missing',
            remedy: 'Install the policy, then ask again.',
          })
        }),
    },

    write: (target, changes, commit) => guarded(() => register(registrations, host, target, changes, commit)),

    async *read(target, plan) {
      yield await guarded(async () => readPage(host.lakeEngine, await registrations.get(target), target, plan))
    },

    recover: (target) => guarded(async () => (await registrations.get(target))?.current?.applied ?? null),

    query: (scope, query) =>
      guarded(async () => {
        await checkFiles(registrations, scope, query)
        if (host.lakeEngine === undefined) throw unsupported('queries without an engine over the lake')
        return host.lakeEngine.query({ ...query, scope })
      }),

    drop: (target, mode) =>
      guarded(async () => {
        const isThere = (await registrations.get(target)) !== null
        if (mode === 'apply') await registrations.drop(target)
        const step: PlanStep = {
          action: 'drop',
          description: `forget ${target.domain}.${target.product}; its files stay`,
        }
        return planOfSteps(isThere ? [step] : [])
      }),

    dropTenant: (scope) => guarded(() => registrations.dropTenant(tenantOf(scope))),

    async probe() {
      const hasEngine = host.lakeEngine !== undefined
      const message = hasEngine ? 'statements run in the runtime’s guarded engine' : 'this host runs no engine'
      return { ok: hasEngine, checks: [{ name: 'engine', ok: hasEngine, message }] }
    },

    health: () => health,

    async close() {},
  }
}

/** Whoever made the list of files: none that another tenant registered, or nobody, reaches the engine. */
async function checkFiles(registrations: Registrations, scope: TenantScope, query: LakeQuery): Promise<void> {
  const own = await registrations.ofTenant(tenantOf(scope))
  const registered = own.flatMap(({ current, formerFiles }) => [
    ...(current ? filesOf(current.snapshot) : []),
    ...formerFiles,
  ])
  const known = new Set(registered)
  if (query.tables.flatMap(filesOf).every((file) => known.has(file))) return
  throw new SluiceError('PERMISSION', 'the query names a file that is not registered for its tenant', {
    code: 'file_not_registered',
    remedy: 'Query products that have been materialized to this endpoint.',
  })
}
