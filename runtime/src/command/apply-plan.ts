/** What applying a folder would do: each of its products held against the server's, before anything is written. */
import { type Client, ServerRefused } from './client.ts'
import type { DeployAnswer, PlanAnswer } from './deploy-answer.ts'
import { type ChangeVerdict, nextVersion } from './next-version.ts'
import { pathOf, problemLine } from './product-files.ts'
import { type FolderProduct, problemsOf } from './product-folders.ts'
import { usedIn } from './product-order.ts'

/** A product as the server lists it. */
export interface ServerProduct {
  readonly id: string
  readonly name: string
  readonly namespace: string
  readonly status: string
  readonly current_version: string | null
  readonly paused: { readonly reason: string; readonly version: string; readonly since: string } | null
  readonly last_run: { readonly id: string; readonly state: string } | null
  readonly notices: readonly string[]
}

export interface ServerVersion {
  readonly version: string
  readonly digest: string
}

export interface PlannedProduct {
  readonly product: FolderProduct
  readonly action: 'create' | 'change' | 'unchanged' | 'refused'
  /** In service today. */
  readonly deployed: string | null
  /** That it gets, or has where nothing changes. Null: not known before its turn comes, or refused. */
  readonly version: string | null
  readonly verdict: string | null
  /** Of what was planned; null where that waits for its turn. */
  readonly digest: string | null
  /** Products of the folder that have to be deployed before this one can be planned. */
  readonly waitsFor: readonly string[]
  /** Products made of it that get other manifests after it; absent: none. */
  readonly breaks?: readonly string[]
  readonly plan: PlanAnswer | null
  readonly warnings: readonly string[]
  /** Why it is refused. */
  readonly refusals: readonly string[]
}

export interface ApplyChoices {
  /** For all products that change; null: each its next. */
  readonly version: string | null
  /** namespace.name of those whose readers may be broken. */
  readonly breaking: readonly string[]
  /** namespace.name.column of those whose class may become lower. */
  readonly lower: readonly string[]
}

const UNAUTHORIZED = 401

/** By namespace.name. */
export async function productsOf(client: Client): Promise<ReadonlyMap<string, ServerProduct>> {
  const products = (await client.list('/api/v1/products')) as ServerProduct[]
  return new Map(products.map((one) => [`${one.namespace}.${one.name}`, one]))
}

/** Those of the folder's namespaces that the folder has not. */
export function productsBeside(
  folder: readonly FolderProduct[],
  onServer: ReadonlyMap<string, ServerProduct>,
): readonly ServerProduct[] {
  const namespaces = new Set(folder.map(({ namespace }) => namespace))
  const names = new Set(folder.map(({ name }) => name))
  const beside = [...onServer].filter(([name, { namespace }]) => namespaces.has(namespace) && !names.has(name))
  return beside.map(([, product]) => product).toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

/**
 * Throws with every problem of all manifests. What this machine's configuration finds the server is asked about, whose
 * word counts: it may have plugins and classes that are not known here.
 */
export async function checkManifests(client: Client, products: readonly FolderProduct[]): Promise<void> {
  const problems: string[] = []
  for (const product of products.filter(({ parsed }) => !parsed.ok)) {
    const refusal = await client.upload(`${pathOf(product.name)}/plan?version=1.0.0`, product.texts).then(
      () => null,
      (error: unknown) => error,
    )
    if (!(refusal instanceof ServerRefused) || refusal.code !== 'manifests_invalid') continue
    const told = refusal.places.map(({ manifest = '', line = 1, column = 1, ...place }) => {
      return `${product.folder}/${problemLine({ manifest, line, column, ...place })}`
    })
    problems.push(...(told.length > 0 ? told : problemsOf(product)))
  }
  if (problems.length === 0) return
  throw new Error(
    [`the manifests have problems, and nothing was done`, ...problems.map((one) => `  ${one}`)].join('\n'),
  )
}

/** In the order of the products: what comes later may wait for what is done before it. */
export async function planProducts(
  client: Client,
  products: readonly FolderProduct[],
  onServer: ReadonlyMap<string, ServerProduct>,
  choices: ApplyChoices,
): Promise<readonly PlannedProduct[]> {
  const planned: PlannedProduct[] = []
  const changing = async ({ name }: FolderProduct): Promise<readonly string[]> => {
    const found: string[] = []
    for (const one of products.filter(({ names }) => names.includes(name))) {
      const server = onServer.get(one.name) ?? null
      if (server === null || !one.parsed.ok) continue
      if (await isChanging(client, await standingOf(client, one, server), one.parsed.manifests.digest))
        found.push(one.name)
    }
    return found
  }
  const known = new Set([...onServer.keys(), ...products.map(({ name }) => name)])
  for (const product of products) {
    const server = onServer.get(product.name) ?? null
    const absent = product.names.filter((name) => !known.has(name))
    const before = planned.filter(({ action, product: { name } }) => {
      return product.names.includes(name) && action !== 'unchanged'
    })
    const blocked = before.filter(({ action }) => action === 'refused').map((one) => one.product.name)
    if (absent.length > 0) planned.push(refused(product, server, absent.map(absentRefusal)))
    else if (blocked.length > 0) planned.push(refused(product, server, blocked.map(blockedRefusal)))
    else if (sharing(product, before).length > 0) {
      const standing = await standingOf(client, product, server)
      planned.push({ ...waiting(standing, sharing(product, before)), breaks: await changing(product) })
    } else
      planned.push(await planProduct(client, product, server, choices, { before, breaks: await changing(product) }))
  }
  return planned
}

/** Those whose checks it uses: what these are is known when they are deployed. */
function sharing({ texts }: FolderProduct, before: readonly PlannedProduct[]): readonly PlannedProduct[] {
  const used = usedIn(texts)
  return before.filter(({ product }) => used.includes(product.name))
}

/** @param digest by this machine, which has no checks of other products: of what uses these the server is asked */
async function isChanging(client: Client, standing: Standing, digest: string): Promise<boolean> {
  const { product } = standing
  if (usedIn(product.texts).length === 0) return !isDeployed(standing, digest)
  const query = new URLSearchParams([['version', nextOf(standing, 'breaking')]])
  try {
    const answer = (await client.upload(`${pathOf(product.name)}/plan?${query}`, product.texts)) as DeployAnswer
    return !isDeployed(standing, answer.digest)
  } catch (error) {
    if (!(error instanceof ServerRefused) || error.status === UNAUTHORIZED) throw error
    return isOfNamed(error)
  }
}

/** What a product stands among in its folder. */
export interface Beside {
  /** Products that it names and that are to be deployed first. */
  readonly before: readonly PlannedProduct[]
  /** Products that are made of it and get other manifests after it: what breaks the former ones is no reason against it. */
  readonly breaks: readonly string[]
}

const absentRefusal = (name: string): string => `it names ${name}, which is neither in the folder nor on the server`
const blockedRefusal = (name: string): string => `it names ${name}, which is refused`

async function standingOf(client: Client, product: FolderProduct, server: ServerProduct | null): Promise<Standing> {
  const versions = server === null ? [] : await versionsOf(client, product.name)
  return { product, server, versions, current: server?.current_version ?? null }
}

export async function planProduct(
  client: Client,
  product: FolderProduct,
  server: ServerProduct | null,
  choices: ApplyChoices,
  { before, breaks }: Beside,
): Promise<PlannedProduct> {
  const standing = await standingOf(client, product, server)
  // Manifests that mean what is deployed need no plan, which asks the sources.
  if (product.parsed.ok && isDeployed(standing, product.parsed.manifests.digest)) return unchanged(standing)
  // Of a major version nothing is refused for what it breaks: the plan says whether it does.
  const version = choices.version ?? nextOf(standing, 'breaking')
  const lower = loweredOf(product.name, choices).map((column) => ['lower', column] as [string, string])
  const broken = breaks.map((name) => ['breaks', name] as [string, string])
  const query = new URLSearchParams([['version', version], ...lower, ...broken])
  try {
    const answer = (await client.upload(`${pathOf(product.name)}/plan?${query}`, product.texts)) as DeployAnswer
    return { ...judged(standing, answer, choices), breaks }
  } catch (error) {
    if (!(error instanceof ServerRefused) || error.status === UNAUTHORIZED) throw error
    if (before.length === 0 || !isOfNamed(error)) return refused(product, server, [error.message])
    return { ...waiting(standing, before), breaks }
  }
}

/** A product of the folder, and what the server has of it. */
interface Standing {
  readonly product: FolderProduct
  readonly server: ServerProduct | null
  readonly versions: readonly ServerVersion[]
  readonly current: string | null
}

function isDeployed({ versions, current }: Standing, digest: string): boolean {
  return versions.some((one) => one.version === current && one.digest === digest)
}

function nextOf({ versions, current }: Standing, verdict: ChangeVerdict): string {
  const known = versions.map(({ version }) => version)
  return nextVersion(verdict, known, current)
}

function judged(standing: Standing, answer: DeployAnswer, choices: ApplyChoices): PlannedProduct {
  const { product, server, current } = standing
  const { digest, plan } = answer
  if (isDeployed(standing, digest)) return unchanged(standing)
  const refusals = [
    ...plan.problems.map((problem) => problemOf(problem, product.name, plan)),
    ...undone(standing, digest),
    ...broken(standing, plan, choices),
  ]
  const { verdict } = plan
  if (refusals.length > 0) return { ...refused(product, server, refusals), verdict, plan }
  const kind = verdict === 'initial' ? 'compatible' : (verdict as ChangeVerdict)
  return {
    product,
    action: current === null ? 'create' : 'change',
    deployed: current,
    version: choices.version ?? nextOf(standing, kind),
    verdict,
    digest,
    waitsFor: [],
    plan,
    warnings: [...plan.warnings.map(problemLine), ...plan.notes],
    refusals: [],
  }
}

/** The newest thousand, with what each means. */
export async function versionsOf(client: Client, name: string): Promise<readonly ServerVersion[]> {
  const { versions } = (await client.request('GET', pathOf(name))) as { readonly versions: readonly ServerVersion[] }
  return versions
}

export function loweredOf(name: string, { lower }: Pick<ApplyChoices, 'lower'>): readonly string[] {
  return lower.filter((one) => one.startsWith(`${name}.`)).map((one) => one.slice(name.length + 1))
}

/** Whether nothing is wrong but for products that it names, which are not there yet or will be others by then. */
function isOfNamed({ code, places }: ServerRefused): boolean {
  // It may be written for columns that they have by then.
  if (code === 'transform_invalid') return true
  const isNamed = ({ manifest, path = '' }: (typeof places)[number]) =>
    (manifest === 'compute' && (path === '' || /^schedule\.after\b/.test(path))) ||
    (manifest === 'inputs' && /^inputs\[\d+\]\.(product$|columns\b)/.test(path))
  return places.length > 0 && places.every(isNamed)
}

/** Somebody went back from just this: a folder that still says it is no reason to do it again. */
function undone({ product, server, versions }: Standing, digest: string): readonly string[] {
  const former = versions.find((one) => one.digest === digest)
  if (server?.paused?.reason !== 'rollback' || former === undefined) return []
  const { version, since } = server.paused
  const again = `sluice product deploy FOLDER --version ${former.version}`
  return [
    `it was rolled back from this to version ${version} at ${since}. Correct the folder (${product.folder}): other manifests end the rollback; or deploy these again: ${again}`,
  ]
}

const lowerFlag = (name: string, columns: readonly string[]): string =>
  `--lower ${columns.map((column) => `${name}.${column}`).join(',')}`

/** What the server would have in a document stands on a command line as a flag. */
function problemOf({ code, message, remedy }: PlanAnswer['problems'][number], name: string, plan: PlanAnswer): string {
  const flag = code === 'class_lowering_unnamed' ? lowerFlag(name, plan.lowered_classes) : ''
  const said = flag === '' ? remedy : `Keep the class, or say ${flag}`
  return `${message} (${code})${said ? `. ${said}` : ''}`
}

/** What breaks readers is deployed where it is meant by name, or by a version that says so. */
function broken(standing: Standing, { verdict }: PlanAnswer, { breaking, version }: ApplyChoices): readonly string[] {
  const { name } = standing.product
  if (verdict !== 'breaking' || version !== null || breaking.includes(name)) return []
  const next = nextOf(standing, 'breaking')
  return [`the changes break its readers. Where that is meant, --breaking ${name} deploys it as ${next}`]
}

function refused(product: FolderProduct, server: ServerProduct | null, refusals: readonly string[]): PlannedProduct {
  const deployed = server?.current_version ?? null
  const rest = { version: null, verdict: null, digest: null, waitsFor: [], plan: null, warnings: [] }
  return { product, action: 'refused', deployed, ...rest, refusals }
}

function waiting({ product, current }: Standing, before: readonly PlannedProduct[]): PlannedProduct {
  const waitsFor = before.map((one) => one.product.name)
  const warnings = [`it can be planned when ${waitsFor.join(' and ')} is deployed, and is refused then if need be`]
  const rest = { version: null, verdict: null, digest: null, plan: null, refusals: [] }
  return { product, action: current === null ? 'create' : 'change', deployed: current, ...rest, waitsFor, warnings }
}

function unchanged({ product, server, current }: Standing): PlannedProduct {
  const { paused = null, last_run: run = null, status = '' } = server ?? {}
  const warnings = [
    ...(paused === null ? [] : [`it is paused: ${paused.reason} (version ${paused.version}, ${paused.since})`]),
    ...(run?.state === 'failed' ? [`its last run failed: sluice logs ${run.id}`] : []),
    ...(status === 'degraded' ? ['a store does not serve its newest content yet'] : []),
  ]
  const rest = { verdict: null, digest: null, waitsFor: [], plan: null, refusals: [] }
  return { product, action: 'unchanged', deployed: current, version: current, ...rest, warnings }
}
