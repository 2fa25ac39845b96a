/** Where the server and a folder of products have parted, by kinds. */
import type { Config } from '../config.ts'
import type { ParsedManifests } from '../manifest/parse-manifests.ts'
import { productsBeside, productsOf, type ServerProduct, type ServerVersion } from './apply-plan.ts'
import { nameOf } from './apply-table.ts'
import { type Client, ServerRefused } from './client.ts'
import type { SharedCheckAnswer } from './deploy-answer.ts'
import { manifestParser } from './lint.ts'
import { type Difference, differences } from './manifest-difference.ts'
import { pathOf } from './product-files.ts'
import type { FolderProduct } from './product-folders.ts'

export interface Drift {
  /** namespace.name */
  readonly product: string
  readonly kind: 'missing' | 'extra' | 'changed' | 'rolled_back' | 'paused' | 'draft_left' | 'copy_drifted' | 'failing'
  readonly message: string
  /** Of `changed`. */
  readonly difference?: Difference
}

interface KeptManifests {
  readonly digest: string
  readonly uploaded_by?: string
  readonly uploaded_at?: string
  readonly manifests: Readonly<Record<string, string>>
  readonly shared_checks?: readonly SharedCheckAnswer[]
}

interface Detail {
  readonly versions: readonly ServerVersion[]
  readonly endpoints: readonly {
    readonly type: string
    readonly state: string
    readonly error: { readonly message: string } | null
  }[]
  readonly notices: readonly { readonly kind: string; readonly message: string }[]
}

type Parse = (texts: Readonly<Record<string, string>>) => ParsedManifests
type Found = Omit<Drift, 'product'>

const FORBIDDEN = 403

export async function driftsOf(
  client: Client,
  products: readonly FolderProduct[],
  config: Config,
): Promise<readonly Drift[]> {
  const parse = await manifestParser(config)
  const onServer = await productsOf(client)
  const found: Drift[] = []
  for (const product of products) {
    const server = onServer.get(product.name)
    const own = server === undefined ? [ABSENT] : await driftsOfProduct(client, product, server, parse)
    found.push(...own.map((one) => ({ product: product.name, ...one })))
  }
  for (const server of productsBeside(products, onServer)) {
    const version = server.current_version === null ? 'never deployed' : `deployed as ${server.current_version}`
    found.push({ product: nameOf(server), kind: 'extra', message: `it is not in the folder; ${version}` })
  }
  return found
}

const ABSENT: Found = { kind: 'missing', message: 'the server has no such product' }

async function driftsOfProduct(
  client: Client,
  product: FolderProduct,
  server: ServerProduct,
  parse: Parse,
): Promise<readonly Found[]> {
  const path = pathOf(product.name)
  const detail = (await client.request('GET', path)) as Detail
  const drafts = await draftsOf(client, path, detail)
  const version = server.current_version
  if (version === null) return [{ kind: 'missing', message: 'no version of it is deployed' }, ...drafts]
  const deployed = (await client.request('GET', `${path}/manifests/${encodeURIComponent(version)}`)) as KeptManifests
  return [
    ...changesOf(product, deployed, parse),
    ...sharedChangesOf(deployed),
    ...pausesOf(server),
    ...drafts,
    ...copiesOf(detail),
    ...failuresOf(server, detail),
    ...(await blockedOf(client, path)),
  ]
}

function changesOf({ texts, parsed }: FolderProduct, { manifests }: KeptManifests, parse: Parse): readonly Found[] {
  const deployed = parse(manifests)
  const meaning = (side: ParsedManifests) => (side.ok ? side.manifests : null)
  const found = differences({ texts, meaning: meaning(parsed) }, { texts: manifests, meaning: meaning(deployed) })
  return found.map((difference) => ({ kind: 'changed', message: 'the folder says something else', difference }))
}

/** Texts that are the same name checks that are not, where the product that has them was deployed since. */
function sharedChangesOf({ shared_checks: shared = [] }: KeptManifests): readonly Found[] {
  return shared.flatMap(({ product, version_in_service: version, differs, check }) => {
    if (!differs) return []
    const now = version === null ? 'no version in service' : `another or none as ${version}`
    return [
      {
        kind: 'changed',
        message: `the check "${check.name}" of ${product} is as of its upload; that product has ${now}`,
      },
    ]
  })
}

function pausesOf({ paused }: ServerProduct): readonly Found[] {
  if (paused === null) return []
  const { reason, version, since } = paused
  if (reason === 'rollback') return [{ kind: 'rolled_back', message: `to version ${version} at ${since}` }]
  return [{ kind: 'paused', message: `${reason}: version ${version}, ${since}` }]
}

/** Manifests that were uploaded and never deployed; those of a version that was are no draft any more. */
async function draftsOf(client: Client, path: string, { versions }: Detail): Promise<readonly Found[]> {
  const draft = (await client.find(`${path}/manifests`)) as KeptManifests | null
  if (draft === null || versions.some(({ digest }) => digest === draft.digest)) return []
  return [{ kind: 'draft_left', message: `${draft.uploaded_by} uploaded other manifests at ${draft.uploaded_at}` }]
}

function copiesOf({ notices }: Detail): readonly Found[] {
  const drifted = notices.filter(({ kind }) => kind === 'store_drifted')
  return drifted.map(({ message }) => ({ kind: 'copy_drifted', message }))
}

function failuresOf({ last_run: run, status }: ServerProduct, { endpoints }: Detail): readonly Found[] {
  const failed = endpoints.filter(({ state }) => state === 'failed')
  const messages = [
    ...(run?.state === 'failed' ? [`its last run failed: sluice logs ${run.id}`] : []),
    ...failed.map(({ type, error }) => `${type} does not serve its newest content${error ? `: ${error.message}` : ''}`),
    ...(status === 'degraded' && failed.length === 0 ? ['a store does not serve its newest content yet'] : []),
  ]
  return messages.map((message) => ({ kind: 'failing', message }))
}

/** Whether its checks kept the newest content from being published. Who may not read the product is not told. */
async function blockedOf(client: Client, path: string): Promise<readonly Found[]> {
  try {
    const { data } = (await client.request('GET', `${path}/quality?limit=1`)) as {
      readonly data: readonly { readonly state: string; readonly committed_at: string }[]
    }
    if (data[0]?.state !== 'blocked') return []
    return [
      { kind: 'failing', message: `its checks kept what was made at ${data[0].committed_at} from being published` },
    ]
  } catch (error) {
    if (error instanceof ServerRefused && error.status === FORBIDDEN) return []
    throw error
  }
}
