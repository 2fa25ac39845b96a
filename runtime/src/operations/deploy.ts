/** Deploying a version: everything is checked first, and a dry run ends there. */
import { CLEAR, type Plan, SluiceError } from '@sluice/sdk'
import semver from 'semver'
import { inTransaction } from '../database/pools.ts'
import type { EngineOutput, EngineRun, EngineTable } from '../engine/engine.ts'
import { quoteName } from '../engine/sql-text.ts'
import { appendEvent } from '../events/outbox.ts'
import type { TenantCall } from '../flow.ts'
import { qualified } from '../ingestion/source-tables.ts'
import { type Compatibility, compareManifests } from '../manifest/compatibility.ts'
import type { SourceTable } from '../manifest/context.ts'
import type { Input, ManifestSet } from '../manifest/manifest-set.ts'
import { outputSchema } from '../manifest/manifest-set.ts'
import type { Problem } from '../manifest/problem.ts'
import { targetFor } from '../materializer/materialize.ts'
import { planVariants, servesVariant } from '../materializer/variants.ts'
import { isSensitive } from '../policy/masking.ts'
import { actorOf } from '../registry/actor.ts'
import type { Connection } from '../registry/connections.ts'
import { createDeployment, type Deployment, finishDeployment } from '../registry/deployments.ts'
import { raiseFence } from '../registry/fences.ts'
import { grantProduct } from '../registry/grants.ts'
import { type Product, updateProduct } from '../registry/products.ts'
import { rawClasses, saveRawClasses } from '../registry/raw-classes.ts'
import { enqueueRun, queuedRunOf } from '../registry/runs.ts'
import { findDraft, findVersion, saveVersion } from '../registry/versions.ts'
import { discoverAll } from './connections.ts'
import { audited, type Platform, requireDeveloper } from './platform.ts'
import {
  checkVersion,
  connectionsOf,
  inputsAreInLake,
  manifestsInvalid,
  mayReadRaw,
  parseTexts,
  productOf,
} from './products.ts'

export interface DeployPlan {
  readonly version: string
  readonly verdict: 'initial' | Compatibility['verdict']
  readonly changes: Compatibility['changes']
  readonly lake: readonly string[]
  readonly stores: readonly {
    readonly endpoint: string
    readonly variant: string
    readonly steps: Plan['steps']
  }[]
  readonly estimatedRows: number | null
  readonly warnings: readonly Problem[]
}

export interface DeployAnswer {
  readonly dryRun: boolean
  readonly plan: DeployPlan
  readonly deployment: Deployment | null
  readonly runId: string | null
}

interface Checked {
  readonly product: Product
  readonly texts: Readonly<Record<string, string>>
  readonly manifests: ManifestSet
  readonly live: ManifestSet | null
  readonly origins: readonly ColumnOrigin[] | null
  readonly plan: DeployPlan
  /** Columns whose class this version lowers, for the audit log. */
  readonly lowered: readonly string[]
}

/** A dry run writes nothing anywhere. Throws 422 `manifests_invalid` and its kin, 409 `breaking_change`, `version_exists`. */
export async function deployProduct(
  platform: Platform,
  call: TenantCall,
  reference: string,
  request: { readonly version: string; readonly dryRun: boolean },
): Promise<DeployAnswer> {
  requireDeveloper(call.principal)
  checkVersion(request.version)
  const product = await productOf(platform, call, reference)
  const checked = await checkDeployment(platform, call, product, request.version)
  if (request.dryRun) return { dryRun: true, plan: checked.plan, deployment: null, runId: null }
  const { deployment, runId } = await commitDeployment(platform, call, checked, request.version)
  platform.served.drop(call.tenant)
  return { dryRun: false, plan: checked.plan, deployment, runId }
}

async function checkDeployment(
  platform: Platform,
  call: TenantCall,
  product: Product,
  version: string,
): Promise<Checked> {
  const draft = await findDraft<ManifestSet>(platform.pool, product.id)
  if (!draft) {
    throw new SluiceError('CONFLICT', 'the product has no manifests yet', {
      code: 'manifests_missing',
      remedy: 'Upload the six manifests first.',
    })
  }
  const connections = await connectionsOf(platform, call.tenant, draft.normalised)
  const sources = await discoverSources(platform, call, draft.normalised, connections)
  const parsed = parseTexts(platform, product, draft.manifests, sources.tables)
  if (!parsed.ok) throw manifestsInvalid(parsed)
  const { manifests } = parsed
  await checkRawGrants(platform, call, manifests, connections)
  const origins = await checkTransform(platform, call, manifests, sources.tables)
  const live = await liveManifests(platform, product)
  const compatibility = live === null ? null : compareManifests(live, manifests)
  await checkVersionStep(platform, product, version, manifests, compatibility)
  return {
    product,
    texts: draft.manifests,
    manifests,
    live,
    origins,
    lowered: checkClasses(
      call,
      [...loweredClasses(platform, live, manifests), ...(await laundered(platform, product, manifests, origins))],
      connections,
    ),
    plan: {
      version,
      verdict: compatibility?.verdict ?? 'initial',
      changes: compatibility?.changes ?? [],
      lake: lakeChanges(live, manifests),
      stores: await storePlans(platform, product, manifests),
      estimatedRows: estimatedRows(manifests, sources.estimates),
      warnings: [...parsed.warnings, ...sources.warnings],
    },
  }
}

interface Sources {
  readonly tables: ReadonlyMap<string, readonly SourceTable[] | null>
  readonly estimates: ReadonlyMap<string, number | null>
  readonly warnings: readonly Problem[]
}

/** A source that does not answer is a warning: a deploy must not depend on it. */
async function discoverSources(
  platform: Platform,
  call: TenantCall,
  manifests: ManifestSet,
  connections: ReadonlyMap<string, Connection>,
): Promise<Sources> {
  const tables = new Map<string, readonly SourceTable[] | null>()
  const estimates = new Map<string, number | null>()
  const warnings: Problem[] = []
  for (const [name, connection] of connections) {
    try {
      const found = await discoverAll(platform, connection, call.signal)
      tables.set(name, found)
      for (const table of found) estimates.set(`${name}:${table.schema}.${table.name}`, table.estimatedRows)
    } catch (error) {
      call.signal.throwIfAborted()
      if (!(error instanceof SluiceError)) throw error
      tables.set(name, null)
      warnings.push({
        manifest: 'inputs',
        line: 1,
        column: 1,
        path: 'inputs',
        message: `the connection "${name}" could not be asked for its tables, so inputs were not checked against them`,
        hint: error.remedy ?? 'Test the connection.',
      })
    }
  }
  return { tables, estimates, warnings: manifests.inputs.length > 0 ? warnings : [] }
}

/** Tenant SQL runs with its author's rights: who deploys over a raw table must be allowed to read it. */
async function checkRawGrants(
  platform: Platform,
  call: TenantCall,
  manifests: ManifestSet,
  connections: ReadonlyMap<string, Connection>,
): Promise<void> {
  for (const input of manifests.inputs) {
    const connection = connections.get(input.connection)
    if (!connection || (await mayReadRaw(platform, call, connection, qualified(input.table)))) continue
    throw new SluiceError('PERMISSION', `you may not read the raw table of the input "${input.name}"`, {
      code: 'raw_table_forbidden',
      remedy: `Ask the creator of the connection "${input.connection}" to deploy, or for a grant on the table.`,
    })
  }
}

const CHECK_MEMORY_BYTES = 256 * 1024 * 1024
const CHECK_TIMEOUT_MS = 20_000

/**
 * Binds the transform and the conditions to empty inputs: what cannot run is found before anything is deployed. Gives
 * what each output column is made of; null where a source could not be asked.
 */
async function checkTransform(
  platform: Platform,
  call: TenantCall,
  manifests: ManifestSet,
  sources: ReadonlyMap<string, readonly SourceTable[] | null>,
): Promise<readonly ColumnOrigin[] | null> {
  const tables = manifests.inputs.map((input) => emptyInput(input, sources.get(input.connection) ?? null))
  if (tables.some((table) => table === null)) return null
  const known = tables as readonly EngineTable[]
  for (const [index, { where }] of manifests.inputs.entries()) {
    if (where === null) continue
    const table = known[index] as EngineTable
    await inspect(platform, call, { kind: 'inspect-condition', sql: where }, [table], 'inputs', 'where')
  }
  const names = outputSchema(manifests.output).columns.map((column) => quoteName(column.name))
  const from = manifests.compute.transform ?? `SELECT * FROM ${quoteName(manifests.inputs[0]?.name ?? '')}`
  const sql = `SELECT ${names.join(', ')} FROM (\n${from}\n) AS output`
  const run = await inspect(platform, call, { kind: 'inspect', sql }, known, 'compute', 'transform')
  return run.columns.map((column, index) => ({
    column: column.name,
    sources: (run.lineage[index]?.direct ?? []).flatMap(({ table, column: source }) => {
      const input = manifests.inputs.find((candidate) => candidate.name === table.at(-1))
      return input ? [rawColumn(input, source)] : []
    }),
  }))
}

interface ColumnOrigin {
  readonly column: string
  /** Raw columns, as `rawColumn` names them. */
  readonly sources: readonly string[]
}

function rawColumn(input: Input, column: string): string {
  return JSON.stringify([input.connection, qualified(input.table), column.toLowerCase()])
}

async function inspect(
  platform: Platform,
  call: TenantCall,
  output: Extract<EngineOutput, { kind: 'inspect' | 'inspect-condition' }>,
  tables: readonly EngineTable[],
  manifest: string,
  path: string,
): Promise<EngineRun> {
  const limits = { memoryBytes: CHECK_MEMORY_BYTES, timeoutMs: CHECK_TIMEOUT_MS, threads: 1 }
  try {
    return await platform.engine.run({ trust: 'tenant', tables, output, limits }, call.signal)
  } catch (error) {
    if (!(error instanceof SluiceError) || error.kind !== 'INVALID_DATA') throw error
    throw new SluiceError('INVALID_DATA', `${path} in ${manifest}.yaml cannot run: ${error.message}`, {
      code: 'transform_invalid',
      remedy: error.remedy ?? 'Correct the SQL, or the columns in output.yaml.',
      details: { errors: [{ manifest, path, message: error.message }], ...error.details },
      cause: error,
    })
  }
}

/**
 * An output column inherits the strictest class that any product of the tenant gives to the raw columns it is made
 * of, so that nobody shows as public in one product what another hides.
 */
async function laundered(
  platform: Platform,
  product: Product,
  manifests: ManifestSet,
  origins: readonly ColumnOrigin[] | null,
): Promise<readonly string[]> {
  const classes = await rawClasses(platform.pool, product.tenant, product.id)
  return (origins ?? []).flatMap(({ column, sources }) => {
    const declared = manifests.output.columns.find((candidate) => candidate.name === column)?.classification ?? 'public'
    const inherited = sources.some((source) => isSensitive(classes.get(source) ?? 'public', platform.rules))
    return inherited && !isSensitive(declared, platform.rules) ? [column] : []
  })
}

function emptyInput(input: Input, tables: readonly SourceTable[] | null): EngineTable | null {
  const found = tables?.find((table) => `${table.schema}.${table.name}` === qualified(input.table))
  if (!found) return null
  const columns = found.columns.filter((column) => input.columns === null || input.columns.includes(column.name))
  return {
    name: [input.name],
    files: [],
    columns: columns.map((column, index) => ({ name: column.name, type: column.type, fieldId: index + 1 })),
  }
}

async function liveManifests(platform: Platform, product: Product): Promise<ManifestSet | null> {
  if (product.currentVersion === null) return null
  return (await findVersion<ManifestSet>(platform.pool, product.id, product.currentVersion))?.normalised ?? null
}

async function checkVersionStep(
  platform: Platform,
  product: Product,
  version: string,
  manifests: ManifestSet,
  compatibility: Compatibility | null,
): Promise<void> {
  const same = await findVersion<ManifestSet>(platform.pool, product.id, version)
  if (same && same.digest !== manifests.digest) {
    throw new SluiceError('CONFLICT', 'this version was deployed with other manifests', {
      code: 'version_exists',
      remedy: 'Deploy the changed manifests under a new version.',
      details: { version },
    })
  }
  const current = product.currentVersion
  if (current === null || compatibility?.verdict !== 'breaking' || semver.major(version) > semver.major(current)) return
  throw new SluiceError('CONFLICT', `the changes break readers of version ${current}`, {
    code: 'breaking_change',
    remedy: `Deploy it as ${semver.inc(current, 'major')}.`,
    details: { changes: compatibility.changes.filter((change) => change.verdict === 'breaking') },
  })
}

function loweredClasses(platform: Platform, live: ManifestSet | null, next: ManifestSet): readonly string[] {
  return (live?.output.columns ?? [])
    .filter((column) => isSensitive(column.classification, platform.rules))
    .filter((column) => {
      const now = next.output.columns.find((candidate) => candidate.name === column.name)
      return now !== undefined && !isSensitive(now.classification, platform.rules)
    })
    .map((column) => column.name)
}

/** A class may be lowered by the product's creator, the owner of its sources, or an administrator. */
function checkClasses(
  call: TenantCall,
  columns: readonly string[],
  connections: ReadonlyMap<string, Connection>,
): readonly string[] {
  const lowered = [...new Set(columns)]
  if (lowered.length === 0) return lowered
  const { principal } = call
  const isOwn = (actor: { readonly issuer: string; readonly subject: string }) =>
    actor.issuer === principal.issuer && actor.subject === principal.subject
  if (principal.isAdmin || [...connections.values()].every((one) => isOwn(one.createdBy))) return lowered
  throw new SluiceError(
    'PERMISSION',
    'only the owner of the source or an administrator may lower the class of a column',
    {
      code: 'class_lowering_refused',
      remedy: 'Keep the class, or ask the creator of the connection.',
      details: { columns: lowered },
    },
  )
}

function lakeChanges(live: ManifestSet | null, next: ManifestSet): readonly string[] {
  const name = `${next.product.domain}.${next.product.name}`
  if (live === null) return [`create table ${name} with ${next.output.columns.length} columns`]
  const before = new Map(live.output.columns.map((column) => [column.name, column]))
  const after = new Map(next.output.columns.map((column) => [column.name, column]))
  return [
    ...[...after.values()]
      .filter((column) => !before.has(column.name))
      .map((column) => `add column ${column.name} ${column.type}`),
    ...[...before.keys()].filter((column) => !after.has(column)).map((column) => `drop column ${column}`),
    ...[...after.values()]
      .filter((column) => before.has(column.name) && before.get(column.name)?.type !== column.type)
      .map((column) => `change column ${column.name} from ${before.get(column.name)?.type} to ${column.type}`),
  ]
}

async function storePlans(platform: Platform, product: Product, manifests: ManifestSet): Promise<DeployPlan['stores']> {
  const plans: DeployPlan['stores'][number][] = []
  for (const { type, config } of manifests.serving.endpoints) {
    const serving = platform.plugins.serving(type)
    for (const variant of planVariants(manifests.output, [], platform.rules)) {
      if (!serving || !servesVariant(type, config, variant, manifests.output)) continue
      const plan = await serving.store.provision(targetFor(product, variant, config), 'plan')
      plans.push({ endpoint: type, variant: variant.variant, steps: plan.steps })
    }
  }
  return plans.sort((a, b) => Number(b.variant === CLEAR) - Number(a.variant === CLEAR))
}

function estimatedRows(manifests: ManifestSet, estimates: ReadonlyMap<string, number | null>): number | null {
  const counts = manifests.inputs.map((input) => estimates.get(`${input.connection}:${qualified(input.table)}`) ?? null)
  return manifests.compute.transform === null ? (counts[0] ?? null) : null
}

/** Raising the fence ends runs of the former version: they may not commit any more. */
async function commitDeployment(
  platform: Platform,
  call: TenantCall,
  checked: Checked,
  version: string,
): Promise<{ readonly deployment: Deployment; readonly runId: string | null }> {
  const { product, manifests } = checked
  const ready = await inputsAreInLake(platform, call.tenant, manifests)
  return inTransaction(platform.pool, async (tx) => {
    const actor = actorOf(call.principal)
    const fence = await raiseFence(tx, product.id)
    await saveVersion(tx, {
      productId: product.id,
      version,
      manifests: checked.texts,
      normalised: manifests,
      digest: manifests.digest,
      deployedBy: actor,
    })
    const begun = await createDeployment(tx, {
      tenant: call.tenant,
      productId: product.id,
      kind: 'deploy',
      version,
      digest: manifests.digest,
      fence: fence.token,
      plan: checked.plan,
      createdBy: actor,
    })
    await updateProduct(tx, call.tenant, product.id, {
      status: 'deployed',
      currentVersion: version,
      classification: manifests.product.classification,
      archetype: manifests.product.archetype,
      description: manifests.product.description,
    })
    if (checked.live === null) await grantInitially(tx, call, product, manifests)
    if (checked.origins !== null) await saveRawClasses(tx, product, classesOf(manifests, checked.origins))
    const details = { version, ...(checked.lowered.length > 0 ? { lowered_classes: checked.lowered } : {}) }
    await audited(tx, call, call.tenant, 'product.deploy', { type: 'product', id: product.id }, details)
    await appendEvent(tx, {
      tenant: call.tenant,
      kind: 'deployment',
      name: 'succeeded',
      subject: product.id,
      data: { version, product: product.name, namespace: product.domain },
    })
    const deployment = (await finishDeployment(tx, begun.id, 'succeeded')) ?? begun
    if (!ready || (await queuedRunOf(tx, { productId: product.id }))) return { deployment, runId: null }
    const run = await enqueueRun(tx, {
      tenant: call.tenant,
      kind: 'materialization',
      productId: product.id,
      trigger: 'deploy',
      createdBy: actor,
    })
    return { deployment, runId: run.id }
  })
}

/** By raw column, the classes that this version gives to what is made of it. */
function classesOf(manifests: ManifestSet, origins: readonly ColumnOrigin[]): ReadonlyMap<string, string> {
  const classes = new Map<string, string>()
  for (const { column, sources } of origins) {
    const declared = manifests.output.columns.find((candidate) => candidate.name === column)
    if (!declared || declared.classification === 'public') continue
    for (const source of sources) classes.set(source, declared.classification)
  }
  return classes
}

type Transaction = Parameters<typeof raiseFence>[0]

async function grantInitially(
  tx: Transaction,
  call: TenantCall,
  product: Product,
  manifests: ManifestSet,
): Promise<void> {
  const { teams, users } = manifests.product.access
  const subjects = [
    ...teams.map((subject) => ({ subjectType: 'team' as const, subject })),
    ...users.map((subject) => ({ subjectType: 'user' as const, subject })),
  ]
  for (const subject of subjects) {
    await grantProduct(tx, {
      ...subject,
      tenant: call.tenant,
      productId: product.id,
      issuer: null,
      may: 'read',
      classes: [],
      grantedBy: actorOf(call.principal),
    })
  }
}
