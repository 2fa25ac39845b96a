/** Which topics of changed rows a product has, of what, and for whom. Pure. */
import type { ChangeReaders } from '@sluice/sdk'
import { type ChangeVariant, changeTopic } from '../events/change-message.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { Classification } from '../policy/classification.ts'
import { CLASSIFICATIONS } from '../policy/classification.ts'
import { isAsStrict, type MaskedEpoch, madeMasks, missingMasks } from '../policy/made-masks.ts'
import { isSensitive, type MaskingRules, strategyFor } from '../policy/masking.ts'
import { withRaised } from '../policy/raised.ts'
import type { TopicShape } from '../registry/change-topics.ts'
import type { Product } from '../registry/products.ts'
import type { RaisedByDigest } from '../registry/raised-classes.ts'
import { planVariants, type VariantPlan } from './variants.ts'

export interface PlannedTopic {
  readonly variant: ChangeVariant
  readonly topic: string
  /** The lake's variant that the rows are taken from. */
  readonly plan: VariantPlan
  readonly shape: TopicShape
  readonly readers: readonly string[]
  readonly refused: string | null
}

/**
 * One topic of what every member may see; where columns are hidden in it, and somebody may be shown them, one in clear.
 * Logins of a tenant stand for all of its members, so products of a higher level than those may read are opened to none.
 * @param ofNewest the version that made the newest epoch: what it hides stays hidden until the one in service has made one
 * @param raised what hides columns besides their own class, by the digest of the version that made them
 */
export function planTopics(
  product: Product,
  level: Classification,
  version: ManifestSet,
  ofNewest: ManifestSet | null,
  rules: MaskingRules,
  logins: ChangeReaders,
  raised: RaisedByDigest = new Map(),
): readonly PlannedTopic[] {
  const hiddenBy = (version: ManifestSet | null): Columns =>
    version === null ? [] : onceEach(withRaised(version.output.columns, raised.get(version.digest), rules), rules)
  const columns = stillHidden(hiddenBy(version), hiddenBy(ofNewest), rules)
  const plans = planVariants({ ...version.output, columns }, [], rules)
  const clear = plans.find((plan) => plan.variant === 'clear') as VariantPlan
  const masked = plans.find((plan) => plan.masks.length > 0)
  const isOpen = level === 'public' || level === 'internal'
  const named = (pattern: string | null) =>
    pattern === null || !isOpen ? [] : [pattern.replaceAll('{tenant}', product.tenant)]
  const { reader, cleared } = logins
  const topic = (variant: ChangeVariant, plan: VariantPlan, readers: readonly string[]): PlannedTopic => ({
    variant,
    topic: changeTopic(product.tenant, product.domain, product.name, variant),
    plan,
    shape: shapeOf(plan, level),
    readers: [...new Set(readers)],
    refused:
      plan.schema.primaryKey.length > 0 ? null : 'its rows have no primary key by which they could be told apart',
  })
  const ofMembers = topic('masked', masked ?? clear, [...named(reader), ...named(cleared)])
  if (masked === undefined || cleared === null) return [ofMembers]
  return [ofMembers, topic('clear', clear, named(cleared))]
}

type Columns = ManifestSet['output']['columns']

/**
 * Topics show a column in one way: of several classes that hide it, as the one that shows least. Where none does, as one whose mask
 * the version's rows do not have: nothing of them is sent until they are made anew.
 */
function onceEach(columns: Columns, rules: MaskingRules): Columns {
  return [...Map.groupBy(columns, ({ name }) => name).values()].map((classes) => {
    const ways = classes.map((column) => ({ strategy: strategyFor(column, rules) }))
    const [own] = ways as [(typeof ways)[number]]
    const strictest = ways.findIndex(({ strategy }) => ways.every((other) => isAsStrict(strategy, other)))
    const missing = ways.findIndex((other) => !isAsStrict(own.strategy, other))
    return classes[strictest === -1 ? missing : strictest] as Columns[number]
  })
}

/**
 * Today's columns, each with the class of then where that is masked: rows of then show its mask, and may show no more. Where they
 * may show less by now, the class is today's.
 */
function stillHidden(today: Columns, then: Columns, rules: MaskingRules): Columns {
  return today.map((column) => {
    const before = then.find(({ name }) => name === column.name)
    if (before === undefined || !isSensitive(before.classification, rules)) return column
    const isHidden = isSensitive(column.classification, rules)
    const made = strategyFor(before, rules)
    if (isHidden && !isAsStrict(made, { strategy: strategyFor(column, rules) })) return column
    return { ...column, classification: before.classification }
  })
}

const PLAIN = 'plain'

function shapeOf({ variant, schema, masks }: VariantPlan, level: Classification): TopicShape {
  const columns: Record<string, string> = Object.fromEntries(schema.columns.map(({ name }) => [name, PLAIN]))
  for (const { column, classification, strategy } of masks) columns[column] = `${strategy} of ${classification}`
  return { source: variant, key: schema.primaryKey, columns, level }
}

/**
 * Whether what was sent may stay, and be added to. Not where a column is shown in another way by now, since what was sent
 * would show the former one; nor where the key, or the table that rows are taken from, is another; nor where members may
 * read now what they could not.
 */
export function mayStay(sent: TopicShape | null, now: TopicShape): boolean {
  if (sent === null || sent.source !== now.source || sent.key.join() !== now.key.join()) return false
  const rank = (level: string) => CLASSIFICATIONS.indexOf(level as Classification)
  if (rank(sent.level) > rank(now.level)) return false
  return Object.entries(sent.columns).every(([name, how]) => (now.columns[name] ?? how) === how)
}

/**
 * Masked columns that an epoch's rows would show: it is not sent, and the next one is waited for. Of what members see,
 * those count too that the epoch's own version masks, whichever version the topic is planned for.
 */
export function showsTooMuch(epoch: MaskedEpoch, { variant, plan }: Pick<PlannedTopic, 'variant' | 'plan'>): boolean {
  const masked = epoch.maskedColumns[plan.variant] ?? []
  const ofItsVersion = variant === 'masked' ? (epoch.maskedColumns[FULL_MASK] ?? []) : []
  if (ofItsVersion.some((column) => !masked.includes(column))) return true
  return missingMasks(plan.masks, madeMasks(epoch, plan.variant)).length > 0
}

/** The variant of an epoch in which all is masked that its version masks; there is none where that is nothing. */
const FULL_MASK = 'masked'
