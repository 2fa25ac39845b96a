/** One look of `sluice dev` at a folder: each product that is new or was saved is uploaded, planned and previewed. */
import type { Config } from '../config.ts'
import { loweredOf, versionsOf } from './apply-plan.ts'
import { type Client, ServerRefused } from './client.ts'
import type { DeployAnswer } from './deploy-answer.ts'
import { statesIn } from './folder-watch.ts'
import { nextVersion } from './next-version.ts'
import { pathOf } from './product-files.ts'
import { type FolderProduct, readWhatCan } from './product-folders.ts'
import { inOrder } from './product-order.ts'
import type { CheckAnswer } from './quality-command.ts'
import { ServerAway } from './server-address.ts'

export interface PreviewAnswer {
  readonly columns: readonly { readonly name: string; readonly type: string; readonly masked: boolean }[]
  readonly rows: readonly (readonly unknown[])[]
  readonly row_count: number
  readonly sample: { readonly whole: boolean; readonly input_rows: number | null; readonly rows_given: number }
  readonly checks: readonly CheckAnswer[]
  readonly checks_left_out: readonly string[]
  readonly problems: readonly { readonly code: string; readonly message: string; readonly remedy: string | null }[]
}

/** A product of the folder, as it was planned. */
export interface DevProduct {
  /** namespace.name */
  readonly product: string
  readonly folder: string
  /** In service. */
  readonly deployed: string | null
  /** Whether that is what the folder says. */
  readonly isDeployed: boolean
  /** That a deployment would give it. */
  readonly version: string | null
  /** Null where there is no plan of it. */
  readonly answer: DeployAnswer | null
  readonly preview: PreviewAnswer | null
  /** Why there is no plan. */
  readonly refusal: string | null
  /** Why there is a plan and no preview. */
  readonly withoutPreview: { readonly message: string; readonly isFault: boolean } | null
}

export interface DevRound {
  readonly products: readonly DevProduct[]
  /** What could not be read, by lines that name file and place. */
  readonly problems: readonly string[]
}

export interface DevChoices {
  readonly rows: number
  readonly lower: readonly string[]
  readonly breaks: readonly string[]
}

/** By folder, the state of its files that was planned: what was not saved since then is not planned again. */
export type Planned = Map<string, string>

/** Reasons against a preview that are no mistake of the manifests. */
const NO_FAULT = [
  'input_not_ingested',
  'inputs_of_several_waves',
  'preview_unsupported',
  'preview_too_large',
  'product_forbidden',
  'query_timeout',
  'query_memory_exceeded',
  'query_result_too_large',
  'cpu_time_spent',
  'engine_busy',
]

/** Throws where nobody answers (`isAway`): all of it is to be done again then. What it tells of is in `planned`. */
export async function roundOf(
  root: string,
  config: Config,
  open: () => Promise<Client>,
  choices: DevChoices,
  planned: Planned,
): Promise<DevRound> {
  // Before they are read: what is saved meanwhile is planned once more.
  const states = await statesIn(root)
  const { products, problems } = await readWhatCan(root, config)
  const saved = ordered(products).filter(({ folder }) => planned.get(folder) !== states.get(folder))
  const made: DevProduct[] = []
  const client = saved.length === 0 ? null : await open()
  if (client !== null) for (const product of saved) made.push(await devProduct(client, product, choices))
  for (const { folder } of made) planned.set(folder, states.get(folder) ?? '')
  return { products: made, problems }
}

/** A circle is refused by the server, of each of its products. */
function ordered(products: readonly FolderProduct[]): readonly FolderProduct[] {
  try {
    return inOrder(products)
  } catch {
    return products
  }
}

async function devProduct(client: Client, product: FolderProduct, choices: DevChoices): Promise<DevProduct> {
  const path = pathOf(product.name)
  const about = { product: product.name, folder: product.folder, deployed: null, isDeployed: false, version: null }
  const none = { answer: null, preview: null, refusal: null, withoutPreview: null }
  try {
    const server = (await client.find(path)) as { readonly current_version: string | null } | null
    if (server === null) await client.request('POST', '/api/v1/products', product.registration)
    const { manifests } = (await client.upload(`${path}/manifests`, product.texts)) as Uploaded
    const { digest } = manifests
    const versions = await versionsOf(client, product.name)
    const current = server?.current_version ?? null
    const isDeployed = versions.some((one) => one.version === current && one.digest === digest)
    const known = versions.map(({ version }) => version)
    // Of a major version nothing is refused for what it breaks: the plan says whether it does.
    const asked = isDeployed ? current : nextVersion('breaking', known, current)
    const meant = { digest, lower: loweredOf(product.name, choices), breaks: choices.breaks }
    const body = { version: asked, dry_run: true, ...meant }
    const answer = (await client.request('POST', `${path}/deploy`, body)) as DeployAnswer
    const { verdict } = answer.plan
    const kind = verdict === 'additive' || verdict === 'breaking' ? verdict : 'compatible'
    const version = isDeployed ? current : nextVersion(kind, known, current)
    const { lower } = meant
    const shown = await previewOf(client, `${path}/preview`, { digest, rows: choices.rows, lower })
    return { ...about, ...none, deployed: current, isDeployed, version, answer, ...shown }
  } catch (error) {
    if (isAway(error) || !(error instanceof ServerRefused)) throw error
    return { ...about, ...none, refusal: error.message }
  }
}

interface Uploaded {
  readonly manifests: { readonly digest: string }
}

async function previewOf(
  client: Client,
  path: string,
  body: unknown,
): Promise<Pick<DevProduct, 'preview' | 'withoutPreview'>> {
  try {
    return { preview: (await client.request('POST', path, body)) as PreviewAnswer, withoutPreview: null }
  } catch (error) {
    if (isAway(error) || !(error instanceof ServerRefused)) throw error
    const { message, code } = error
    return { preview: null, withoutPreview: { message, isFault: !NO_FAULT.includes(code) } }
  }
}

const UNAVAILABLE = 503

/** Whether it may answer later what it was asked now. */
export function isAway(error: unknown): boolean {
  if (error instanceof ServerRefused) return error.status === UNAVAILABLE && error.code !== 'engine_busy'
  return error instanceof ServerAway
}

/** Whether a deployment would be refused, or a run fail with the rows that were looked at. */
export function isRefused({ products, problems }: DevRound): boolean {
  return (
    problems.length > 0 ||
    products.some(
      ({ refusal, answer, preview, withoutPreview }) =>
        refusal !== null ||
        (answer?.plan.problems.length ?? 0) > 0 ||
        (preview?.problems.length ?? 0) > 0 ||
        withoutPreview?.isFault === true,
    )
  )
}
