import { listed, required, UsageError } from './arguments.ts'
import { type Command, type CommandCall, segment, word } from './command.ts'
import { ACCEPT, accepted, BREAKS, type DeployAnswer, LOWER, shownPlan } from './deploy-answer.ts'
import { nextRun, type ScheduleStateAnswer } from './next-run.ts'
import { PREVIEW_COMMANDS, previewNote } from './preview-commands.ts'
import { namedProduct, readManifests } from './product-files.ts'
import { QUALITY_COMMAND } from './quality-command.ts'
import { followRun, productLine, type RunAnswer } from './run-progress.ts'
import { textTable } from './text-table.ts'

interface ProductAnswer {
  readonly id: string
  readonly name: string
  readonly namespace: string
  readonly classification: string
  readonly status: string
  readonly current_version: string | null
  readonly notices: readonly string[]
  readonly next_run_at?: string | null
  readonly last_run?: { readonly state: string } | null
  readonly schedule?: { readonly after?: readonly string[] } | null
  readonly schedule_state?: ScheduleStateAnswer | null
}

interface SnapshotAnswer {
  readonly epoch: number
  readonly version: string
  readonly snapshot_id: string
  readonly rows: number | null
  readonly quality_score: number | null
  readonly committed_at: string
}

const FOLDER = { version: 'a semantic version: 1.0.0' }

export const PRODUCT_COMMANDS: Readonly<Record<string, Command>> = {
  'product init': {
    usage:
      'product init FOLDER [--from CONNECTION.SCHEMA.TABLE | --from NAMESPACE.PRODUCT | --from CONTRACT.odcs.yaml]',
    summary: 'write six manifests to begin with; of a table, a product or a contract where one is named',
    flags: {
      from: 'a table of a connection: shop.public.orders; a product in service: sales.orders; or a file, a contract by ODCS 3: orders.odcs.yaml',
      namespace: 'of the new product; default what the folder above says: crm/orders',
      'no-guess': 'propose no classes by the names of columns',
    },
    remote: true,
    run: async (call) => (await import('./product-init.ts')).initCommand(call),
  },
  'product export': {
    usage: 'product export PRODUCT|FOLDER --odcs [--version V]',
    summary: 'the contract that a product keeps, by the Open Data Contract Standard 3.1',
    flags: {
      odcs: 'the standard; there is no other',
      version: 'of a folder’s contract; default 1.0.0. Of a product it is the one in service',
    },
    remote: true,
    run: async (call) => (await import('./product-export.ts')).exportCommand(call),
  },
  'product openapi': {
    usage: 'product openapi PRODUCT [--out FILE]',
    summary: 'what you can do with a product, as an OpenAPI 3.1 document, of what you are shown',
    flags: { out: 'the file to write; default standard output' },
    remote: true,
    run: async (call) => (await import('./product-openapi.ts')).openApiCommand(call),
  },
  'product lint': {
    usage: 'product lint FOLDER',
    summary: 'check the six manifests without a server',
    run: async (call) => {
      const { lintFolder } = await import('./lint.ts')
      const { ok, lines } = await lintFolder(word(call, 0, 'FOLDER'), await call.config())
      if (!ok) throw new Error(`the manifests have problems\n${lines.join('\n')}`)
      return [...lines, 'The manifests are valid.'].join('\n')
    },
  },
  'product plan': {
    usage: 'product plan FOLDER --version V',
    summary: 'what deploying the folder would change; nothing is written anywhere',
    flags: FOLDER,
    remote: true,
    run: async (call) => {
      const answer = await plan(call)
      if (call.args.flags['json']) return answer
      const stores = answer.stores_hash === undefined ? '' : ` --stores-hash ${answer.stores_hash}`
      return `${shownPlan(answer.plan)}\n\nTo deploy just this: --digest ${answer.digest}${stores}`
    },
  },
  'product deploy': {
    usage: 'product deploy FOLDER --version V [--digest D] [--stores-hash H] [--stage preview] [--accept-differences]',
    summary: 'register the product where it is new, upload the folder, deploy, and wait for its first content',
    flags: {
      ...FOLDER,
      digest: 'of the plan that was reviewed: where the folder means something else, nothing is deployed',
      'stores-hash': 'of that plan: where a store would do something else by now, nothing is deployed',
      ...LOWER,
      ...BREAKS,
      ...ACCEPT,
      stage: 'preview: beside the version in service, which stays, and for developers alone',
      'no-wait': 'do not wait for the content',
    },
    remote: true,
    run: async (call) => {
      const { name, answer } = await deploy(call)
      if (answer.run_id && !call.args.flags['no-wait']) await followRun(await call.client(), answer.run_id, null)
      if (call.args.flags['json']) return answer
      if (call.args.flags['stage'] !== undefined) {
        return `${shownPlan(answer.plan)}\n\n${previewNote(answer, name)}`
      }
      const connections = new Set(answer.plan.reads.flatMap(({ connection }) => connection ?? []))
      const syncs = [...connections].map((name) => `\n  sluice sync ${name}`)
      const next = answer.run_id ? '' : `\nIt has no content yet: sync its connections.${syncs.join('')}`
      return `${shownPlan(answer.plan)}\n\nVersion ${answer.deployment?.version} is deployed.${next}`
    },
  },
  ...PREVIEW_COMMANDS,
  'product rollback': {
    usage: 'product rollback PRODUCT --version V | --snapshot ID',
    summary: 'go back to the content and the manifests of a version or a snapshot',
    flags: {
      version: 'a version that was in service',
      snapshot: 'the id of a snapshot',
      ...LOWER,
      ...BREAKS,
      'no-wait': 'only start it',
    },
    remote: true,
    run: async (call) => {
      const { version, snapshot } = call.args.flags
      if ((version === undefined) === (snapshot === undefined))
        throw new UsageError('--version or --snapshot is needed')
      const client = await call.client()
      const named = { lower: listed(call.args, 'lower'), breaks: listed(call.args, 'breaks') }
      const target = { ...(version === undefined ? { snapshot_id: snapshot } : { version }), ...named }
      const path = `/api/v1/products/${segment(call, 0, 'PRODUCT')}/rollback`
      const answer = (await client.request('POST', path, target)) as DeployAnswer & {
        readonly run_id: string
        readonly notes: readonly string[]
      }
      if (!call.args.flags['no-wait']) await followRun(client, answer.run_id, null)
      return call.args.flags['json']
        ? answer
        : [`Version ${answer.deployment?.version} is in service.`, ...answer.notes].join('\n')
    },
  },
  'product resume': {
    usage: 'product resume PRODUCT [--right lake|registry]',
    summary: 'let a product that was rolled back follow its connections again, and wait',
    flags: {
      'no-wait': 'only start it',
      right: 'where the registry is older than the lake: which of them is right',
    },
    remote: true,
    run: (call) => runOfProduct(call, 'resume'),
  },
  'product list': {
    usage: 'product list',
    summary: 'the tenant’s products, newest first, and what should be done about them',
    remote: true,
    async run(call) {
      const products = (await (await call.client()).list('/api/v1/products')) as ProductAnswer[]
      if (call.args.flags['json']) return products
      const rows = products.map((one) => [
        `${one.namespace}.${one.name}`,
        one.status,
        one.current_version,
        one.classification,
        one.last_run?.state ?? null,
        nextRun(one),
        one.notices.join(', '),
        one.id,
      ])
      const header = ['product', 'status', 'version', 'classification', 'last run', 'next run', 'notices', 'id']
      return textTable(header, rows)
    },
  },
  'product show': {
    usage: 'product show PRODUCT',
    summary: 'owner, versions, columns, endpoints, quality, objectives and lineage',
    remote: true,
    run: async (call) => (await call.client()).request('GET', `/api/v1/products/${segment(call, 0, 'PRODUCT')}`),
  },
  'product snapshots': {
    usage: 'product snapshots PRODUCT',
    summary: 'what was published of a product, newest first, with the ids to go back to',
    remote: true,
    async run(call) {
      const path = `/api/v1/products/${segment(call, 0, 'PRODUCT')}/snapshots`
      const found = (await (await call.client()).list(path)) as SnapshotAnswer[]
      if (call.args.flags['json']) return found
      const rows = found.map((one) => [
        one.epoch,
        one.version,
        one.rows,
        one.quality_score,
        one.committed_at,
        one.snapshot_id,
      ])
      return textTable(['epoch', 'version', 'rows', 'quality', 'committed', 'snapshot'], rows)
    },
  },
  quality: QUALITY_COMMAND,
  'product delete': {
    usage: 'product delete PRODUCT [--confirm PRODUCT] [--abandon TYPES]',
    summary: 'remove a product with every copy of its data',
    flags: {
      confirm: 'the product once more: does not ask on a terminal',
      abandon: 'endpoints whose rows may stay where no store is loaded; for administrators',
    },
    remote: true,
    run: async (call) => (await import('./product-deletion.ts')).deleteProduct(call),
  },
  'product materialize': {
    usage: 'product materialize PRODUCT',
    summary: 'make the product anew from what the lake has of its inputs, and wait',
    flags: { 'no-wait': 'only start it' },
    remote: true,
    run: (call) => runOfProduct(call, 'materialize'),
  },
}

async function runOfProduct(call: CommandCall, what: 'materialize' | 'resume'): Promise<unknown> {
  const client = await call.client()
  const { right } = call.args.flags
  const query = typeof right === 'string' ? `?right=${encodeURIComponent(right)}` : ''
  const path = `/api/v1/products/${segment(call, 0, 'PRODUCT')}/${what}${query}`
  const run = (await client.request('POST', path)) as RunAnswer
  const { json } = call.args.flags
  if (call.args.flags['no-wait']) return json ? run : `The run ${run.id} is queued.`
  const ended = await followRun(client, run.id, null)
  if (json) return ended
  return ['Done.', ...ended.products.map(productLine)].join('\n')
}

async function plan(call: CommandCall): Promise<DeployAnswer> {
  const folder = word(call, 0, 'FOLDER')
  const version = required(call.args, 'version')
  const parts = await readManifests(folder)
  const client = await call.client()
  const { path } = await namedProduct(parts['product'] ?? '', folder)
  return (await client.upload(`${path}/plan?version=${encodeURIComponent(version)}`, parts)) as DeployAnswer
}

/** Registers the product where it is new, uploads the folder's manifests, and deploys the version. */
async function deploy(call: CommandCall): Promise<{ readonly name: string; readonly answer: DeployAnswer }> {
  const folder = word(call, 0, 'FOLDER')
  const version = required(call.args, 'version')
  const parts = await readManifests(folder)
  const client = await call.client()
  const { path, registration } = await namedProduct(parts['product'] ?? '', folder)
  if ((await client.find(path)) === null) await client.request('POST', '/api/v1/products', registration)
  await client.upload(`${path}/manifests`, parts)
  const { digest, 'stores-hash': stores } = call.args.flags
  const reviewed = {
    ...(digest === undefined ? {} : { digest }),
    ...(stores === undefined ? {} : { stores_hash: stores }),
  }
  const { stage } = call.args.flags
  const meant = {
    ...reviewed,
    ...(stage === undefined ? {} : { stage }),
    lower: listed(call.args, 'lower'),
    breaks: listed(call.args, 'breaks'),
    ...accepted(call.args),
  }
  const answer = (await client.request('POST', `${path}/deploy`, { version, dry_run: false, ...meant })) as DeployAnswer
  return { name: `${registration.namespace}.${registration.name}`, answer }
}
