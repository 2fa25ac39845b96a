/** `sluice apply`: a folder of products is planned as one, confirmed once, and deployed in the order that it needs. */
import semver from 'semver'
import {
  type ApplyChoices,
  checkManifests,
  type PlannedProduct,
  planProducts,
  productsBeside,
  productsOf,
  type ServerProduct,
} from './apply-plan.ts'
import { type Applied, applyPlan, removalOrder } from './apply-run.ts'
import { nameOf, shownApply } from './apply-table.ts'
import { listed, UsageError } from './arguments.ts'
import { painterFor } from './colours.ts'
import { type CommandCall, Ending, word } from './command.ts'
import { type Asking, askingAt, confirmed } from './confirmation.ts'
import { printOut } from './output.ts'
import { readProducts } from './product-folders.ts'
import { inOrder } from './product-order.ts'
import { plainLines } from './text-table.ts'

/** There is something to do; of `--check`. */
const CHANGES = 2
const REFUSED = 1

interface FolderPlan {
  readonly planned: readonly PlannedProduct[]
  readonly removed: readonly ServerProduct[]
  /** Of the folder's namespaces, not in the folder, and left. */
  readonly beside: readonly ServerProduct[]
}

export async function apply(call: CommandCall, asking: Asking = askingAt()): Promise<unknown> {
  const { flags } = call.args
  const choices = choicesOf(call)
  const products = inOrder(await readProducts(word(call, 0, 'FOLDER'), await call.config()))
  const strange = [...choices.breaking, ...choices.lower].find((name) => !products.some((one) => isOf(one.name, name)))
  if (strange !== undefined) throw new UsageError(`the folder has no product of "${strange}"`)
  const client = await call.client()
  await checkManifests(client, products)
  const onServer = await productsOf(client)
  const planned = await planProducts(client, products, onServer, choices)
  const beside = productsBeside(products, onServer)
  const removed = flags['prune'] ? await removalOrder(client, beside, planned) : []
  const plan = { planned, removed, beside: flags['prune'] ? [] : beside }
  const isRefused = planned.some(({ action }) => action === 'refused')
  const isSame = removed.length === 0 && planned.every(({ action }) => action === 'unchanged')
  if (flags['check'] || isRefused || isSame) {
    const code = isRefused ? REFUSED : isSame ? 0 : CHANGES
    const reason = isRefused ? 'a product is refused, and nothing was done' : null
    return new Ending(code, flags['json'] ? json(plan, null) : shown(plan), reason)
  }
  await confirm(call, plan, asking)
  const applied = await applyPlan(client, { planned, removed, choices, waits: !flags['no-wait'] })
  return ended(call, plan, applied)
}

const isOf = (product: string, named: string): boolean => named === product || named.startsWith(`${product}.`)

function choicesOf({ args }: CommandCall): ApplyChoices {
  const version = args.flags['version'] ?? null
  if (version !== null && semver.valid(version) !== version)
    throw new UsageError(`--version is a semantic version such as 1.0.0, and not "${version}"`)
  return { version, breaking: listed(args, 'breaking'), lower: listed(args, 'lower') }
}

const shown = ({ planned, removed, beside }: FolderPlan): string =>
  shownApply(planned, removed, beside, painterFor(process.stdout))

/** The plan is seen before it is asked for, also where the answer is JSON. Throws where somebody says no. */
async function confirm(call: CommandCall, plan: FolderPlan, asking: Asking): Promise<void> {
  const { flags } = call.args
  const { planned, removed, beside } = plan
  if (flags['json']) process.stderr.write(`${shownApply(planned, removed, beside, painterFor(process.stderr))}\n`)
  else await printOut(shown(plan))
  const count = planned.filter(({ action }) => action !== 'unchanged').length
  const agreed =
    (count === 0 ||
      flags['yes'] ||
      (await confirmed(asking, {
        question: `Deploy ${count === 1 ? 'this product' : `these ${count} products`}? [y/N] `,
        answers: ['y', 'yes'],
        flag: 'yes',
        does: 'deploys without asking',
        plan: 'check',
      }))) &&
    (removed.length === 0 ||
      flags['yes-prune'] ||
      (await confirmed(asking, {
        question: `${removed.map(nameOf).join(', ')}: removed with every copy of the data. Type ${removed.length} to do so: `,
        answers: [String(removed.length)],
        flag: 'yes-prune',
        does: 'removes products without asking',
        plan: 'check',
      })))
  if (!agreed) throw new Error('nothing was done: it was not confirmed')
}

function ended(call: CommandCall, plan: FolderPlan, applied: Applied): unknown {
  const { deployed, removed, toSync, failed, left } = applied
  const lines = [
    ...(deployed.length > 0 ? [`Deployed: ${deployed.map((one) => `${one.product} ${one.version}`).join(', ')}`] : []),
    ...(removed.length > 0 ? [`Removed: ${removed.join(', ')}`] : []),
    ...toSync.map((name) => `Content of what is new comes with the next sync: sluice sync ${name}`),
    ...(left.length > 0 ? [`Not done: ${left.join(', ')}`] : []),
  ]
  const said = call.args.flags['json'] ? json(plan, applied) : plainLines(lines.join('\n'))
  if (failed === null) return said
  return new Ending(1, said, `${failed.product}: ${failed.message}\n${failed.remedy}`)
}

/** As the guide says it; nothing of it is taken away within a major version. */
function json({ planned, removed, beside }: FolderPlan, applied: Applied | null): unknown {
  return {
    products: planned.map(
      ({ product, action, deployed, version, verdict, digest, waitsFor, plan, warnings, refusals }) => ({
        product: product.name,
        folder: product.folder,
        action,
        deployed_version: deployed,
        version,
        verdict,
        digest,
        waits_for: waitsFor,
        changes: plan?.changes ?? [],
        lowered_classes: plan?.lowered_classes ?? [],
        shared_checks: plan?.shared_checks ?? [],
        plan,
        warnings,
        refusals,
      }),
    ),
    removed: removed.map((server) => ({ product: nameOf(server), version: server.current_version })),
    not_in_folder: beside.map(nameOf),
    result:
      applied === null
        ? null
        : { deployed: applied.deployed, removed: applied.removed, failed: applied.failed, not_done: applied.left },
  }
}
