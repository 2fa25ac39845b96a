/** The block `visualization` of serving.yaml: whether a dashboard server can show the product, and with which template. */

import { didYouMean } from '../parsing/suggestion.ts'
import type { DashboardSupport } from './context.ts'
import { parseDuration } from './durations.ts'
import type { ServingFile } from './files/serving.ts'
import type { ClassificationLevel, OutputColumn, ServingManifest } from './manifest-set.ts'
import type { Finding } from './problem.ts'

export type VisualizationFields = NonNullable<ServingFile['visualization']>

export interface VisualizedProduct {
  /** Null where output.yaml could not be read. */
  readonly columns: readonly OutputColumn[] | null
  readonly endpoints: readonly string[]
  /** Null where product.yaml could not be read. */
  readonly classification: ClassificationLevel | null
}

export function readVisualization(block: VisualizationFields | undefined): ServingManifest['visualization'] {
  return {
    enabled: block?.enabled ?? false,
    dashboardTemplate: block?.dashboard_template ?? null,
    refreshIntervalMs: parseDuration(block?.refresh_interval ?? ''),
  }
}

/** Nothing is said of a block that is not enabled: it has no effect. */
export function checkVisualization(
  block: VisualizationFields | undefined,
  product: VisualizedProduct,
  dashboards: DashboardSupport | null,
): readonly Finding[] {
  if (block?.enabled !== true) return []
  if (dashboards === null) {
    const message = 'this deployment has no dashboard server, so the block has no effect'
    return [{ ...finding('enabled', message, 'Leave it out, or set dashboards.url.'), warning: true }]
  }
  return [
    ...endpointFindings(product, dashboards),
    ...classificationFindings(product),
    ...templateFindings(block.dashboard_template, product, dashboards),
  ]
}

function endpointFindings({ endpoints }: VisualizedProduct, dashboards: DashboardSupport): readonly Finding[] {
  if (endpoints.some((type) => dashboards.endpoints.includes(type))) return []
  const message = 'the product has no endpoint that the dashboard server can read'
  const hint =
    dashboards.endpoints.length === 0
      ? 'This deployment keeps no endpoint in PostgreSQL.'
      : `Add one of type ${dashboards.endpoints.join(' or ')}.`
  return [finding('enabled', message, hint)]
}

/** The dashboard server does not tell who read what. */
function classificationFindings({ classification }: VisualizedProduct): readonly Finding[] {
  if (classification !== 'restricted') return []
  const message = 'a restricted product has no dashboards: who read it must be on record, read by read'
  return [finding('enabled', message, 'Classify the product as confidential, or leave the block out.')]
}

function templateFindings(
  template: string | undefined,
  { columns }: VisualizedProduct,
  { templates }: DashboardSupport,
): readonly Finding[] {
  if (template === undefined) return []
  if (!templates.names.includes(template)) {
    const hint = didYouMean(template, templates.names) ?? `There are ${templates.names.join(', ')}.`
    return [finding('dashboard_template', `there is no dashboard template "${template}"`, hint)]
  }
  const missing = columns === null ? null : templates.missing(template, columns)
  return missing === null ? [] : [finding('dashboard_template', `the template "${template}" needs ${missing}`)]
}

function finding(field: string, message: string, hint?: string): Finding {
  const path = ['visualization', field]
  return { manifest: 'serving', path, message, ...(hint === undefined ? {} : { hint }) }
}
