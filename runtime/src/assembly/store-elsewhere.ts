/**
 * A store that one process alone can open, as LMDB's, for the others of the same runtime: they ask the one that has it. Both
 * ends are the runtime's own; of a scope the tenant travels, and its process makes the scope anew.
 */
import {
  type OperationPlan,
  openTenantScope,
  type ReadBatch,
  type ReadPlan,
  type ServingStore,
  SluiceError,
  type Target,
  type TenantScope,
  tenantOf,
  unsupported,
} from '@sluice/sdk'
import type { PluginSet } from '../plugins/plugin-set.ts'

/** Of a request for which nobody's signal travels. */
const CALL_MS = 30_000

type Called =
  | 'provision'
  | 'install'
  | 'describe'
  | 'read'
  | 'operate'
  | 'recover'
  | 'validate'
  | 'digest'
  | 'drop'
  | 'dropTenant'
  | 'probe'

/** One call of a store's, as it travels. */
export interface StoreCall {
  readonly type: string
  readonly call: Called
  /** Null where the call is about no tenant. */
  readonly tenant: string | null
  /** Without its scope; null where the call is about a tenant, or the store. */
  readonly target: Omit<Target, 'scope'> | null
  readonly rest: readonly unknown[]
}

const OPTIONAL = ['operate', 'recover', 'validate', 'digest'] as const

/** What a store has of the calls that a store may lack, by its type: who asks it elsewhere has the same. */
export type OptionalCalls = Readonly<Record<string, readonly (typeof OPTIONAL)[number][]>>

export function optionalCalls(plugins: PluginSet): OptionalCalls {
  const entries = plugins.servingTypes().map(({ type, store }) => {
    return [type, OPTIONAL.filter((call) => store[call] !== undefined)] as const
  })
  return Object.fromEntries(entries)
}

/** @param ask sends the call to the process that has the store open */
export function storeElsewhere(
  type: string,
  calls: OptionalCalls,
  ask: (call: StoreCall) => Promise<unknown>,
): ServingStore {
  const of = async <T>(call: Called, target: Target, ...rest: readonly unknown[]): Promise<T> => {
    const { scope, ...told } = target
    return (await ask({ type, call, tenant: tenantOf(scope), target: told, rest })) as T
  }
  const ofTenant = async (scope: TenantScope): Promise<void> => {
    await ask({ type, call: 'dropTenant', tenant: tenantOf(scope), target: null, rest: [] })
  }
  async function* batches(call: 'read' | 'operate', target: Target, plan: Plan): AsyncGenerator<ReadBatch> {
    yield* await inTime(plan, of<readonly ReadBatch[]>(call, target, toldPlan(plan)))
  }
  const optional: Pick<Required<ServingStore>, (typeof OPTIONAL)[number]> = {
    operate: (target, plan) => batches('operate', target, plan),
    recover: (target) => of('recover', target),
    validate: (target, previous) => of('validate', target, previous),
    digest: (target) => of('digest', target),
  }
  return {
    ...Object.fromEntries((calls[type] ?? []).map((call) => [call, optional[call]])),
    provision: (target, ...rest) => of('provision', target, ...rest),
    rls: {
      install: (target, policy) => of('install', target, policy),
      describe: (target) => of('describe', target),
    },
    // Runs write, and they are the first process's.
    write: () => Promise.reject(unsupported('writing to a store that another process has open')),
    read: (target, plan) => batches('read', target, plan),
    drop: (target, mode) => of('drop', target, mode),
    dropTenant: ofTenant,
    probe: async () => (await ask({ type, call: 'probe', tenant: null, target: null, rest: [] })) as never,
    // What it is, the process that has it says.
    health: () => ({ status: 'ok' }),
    close: async () => undefined,
  }
}

type Plan = ReadPlan | OperationPlan

/** Of a process that is held up nobody waits for longer than for a store. */
function inTime<T>({ timeoutMs, signal }: Plan, answer: Promise<T>): Promise<T> {
  // At 0 the store says what it says.
  if (timeoutMs <= 0) return answer
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const isOver = () => reject(ended('the read has no time left', 'deadline_exceeded'))
  const isCalledOff = () => reject(ended('the read was ended by its caller', 'aborted'))
  const timer = setTimeout(isOver, timeoutMs)
  signal.addEventListener('abort', isCalledOff, { once: true })
  if (signal.aborted) isCalledOff()
  answer.then(resolve, reject)
  return promise.finally(() => {
    clearTimeout(timer)
    signal.removeEventListener('abort', isCalledOff)
  })
}

function ended(message: string, code: string): SluiceError {
  return new SluiceError('TRANSIENT', message, { code })
}

/** Its time travels with it; that nobody waits any more does not. */
function toldPlan({ signal: _, ...plan }: Plan): Omit<Plan, 'signal'> {
  return Object.assign(plan, { isCalledOff: undefined })
}

function heardPlan<P extends Plan>(told: unknown): P {
  const { isCalledOff: _, ...plan } = told as P & { readonly isCalledOff?: unknown }
  return { ...plan, signal: AbortSignal.timeout(Math.max(1, plan.timeoutMs)) } as unknown as P
}

/** Makes a call that another process of this runtime has sent. */
export async function answerStoreCall(plugins: PluginSet, { type, call, tenant, target, rest }: StoreCall) {
  const store = plugins.serving(type)?.store
  if (store === undefined) throw noStore(type)
  if (call === 'probe') return store.probe(AbortSignal.timeout(CALL_MS))
  const scope = openTenantScope(tenant ?? '')
  if (call === 'dropTenant') return store.dropTenant(scope)
  return callOf(store, call, { ...(target as Omit<Target, 'scope'>), scope }, rest)
}

/** Arguments are what `storeElsewhere` was given by callers of the same types. */
async function callOf(store: ServingStore, call: Called, target: Target, [first, second]: readonly unknown[]) {
  switch (call) {
    case 'provision':
      return store.provision(target, first as 'plan', second as string | undefined)
    case 'install':
      return store.rls.install(target, first as never)
    case 'describe':
      return store.rls.describe(target)
    case 'read':
      return Array.fromAsync(store.read(target, heardPlan<ReadPlan>(first)))
    case 'operate':
      return store.operate === undefined ? undeclared() : Array.fromAsync(store.operate(target, heardPlan(first)))
    case 'recover':
      return store.recover === undefined ? undeclared() : store.recover(target)
    case 'validate':
      return store.validate === undefined ? undeclared() : store.validate(target, first as never)
    case 'digest':
      return store.digest === undefined ? undeclared() : store.digest(target, AbortSignal.timeout(CALL_MS))
    default:
      return store.drop(target, first as 'plan')
  }
}

function undeclared(): never {
  throw unsupported('a call that the store does not declare')
}

function noStore(type: string): SluiceError {
  return new SluiceError('TRANSIENT', `the store of ${type} is not open`, { code: 'store_missing' })
}
