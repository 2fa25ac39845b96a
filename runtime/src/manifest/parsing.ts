/** Manifests taken apart beside the event loop: six files of their greatest size take more than a second to read. */
import type { ConfigProblem, TableSchema } from '@sluice/sdk'
import type { Ask, ParseThreads } from '../parsing/parse-threads.ts'
import type { DashboardSupport, ManifestContext, ServingType } from './context.ts'
import type { OutputColumn } from './manifest-set.ts'
import { type ParsedManifests, parseManifests } from './parse-manifests.ts'
import { MANIFEST_NAMES, type ManifestName, type Path } from './problem.ts'
import { type Position, readYaml } from './read-yaml.ts'

/** By manifest, as they were sent. */
export type ManifestTexts = Readonly<Partial<Record<string, string>>>

/** Something that a manifest says. */
export interface ManifestPlace {
  readonly manifest: ManifestName
  readonly path: Path
}

export interface ManifestParsing {
  /** As `parseManifests`. Throws QUOTA `input_too_costly` and `too_many_at_once`. */
  parse(tenant: string, texts: ManifestTexts, context: ManifestContext): Promise<ParsedManifests>
  /** Where in the texts each place stands; null of what cannot be read. */
  locate(tenant: string, texts: ManifestTexts, places: readonly ManifestPlace[]): Promise<readonly (Position | null)[]>
}

/** For commands and tests, where nobody else waits. */
export const PARSING_HERE: ManifestParsing = {
  parse: async (_tenant, texts, context) => parseManifests(filesOf(texts), context),
  locate: async (_tenant, texts, places) => placesIn(texts, places),
}

/** One at a time of each tenant. */
export function parsingIn(threads: ParseThreads): ManifestParsing {
  return {
    parse: (tenant, texts, context) => {
      const answer = (question: unknown) => answerOf(question as Question, context)
      const input = { texts, context: toWire(context) } satisfies ManifestsTask
      return threads.run({ name: 'manifests', input, key: tenant, answer }) as Promise<ParsedManifests>
    },
    locate: (tenant, texts, places) => {
      const input = { texts, places } satisfies PlacesTask
      return threads.run({ name: 'places', input, key: tenant }) as Promise<readonly (Position | null)[]>
    },
  }
}

/** The tasks of the thread. */
export const MANIFEST_TASKS = {
  manifests: ({ texts, context }: ManifestsTask, ask: Ask) => parseManifests(filesOf(texts), fromWire(context, ask)),
  places: ({ texts, places }: PlacesTask) => placesIn(texts, places),
} as const

interface ManifestsTask {
  readonly texts: ManifestTexts
  readonly context: WireContext
}

interface PlacesTask {
  readonly texts: ManifestTexts
  readonly places: readonly ManifestPlace[]
}

/** The context without its functions, which stay where the plugins are and are asked. */
interface WireContext extends Omit<ManifestContext, 'servingTypes' | 'dashboards'> {
  readonly servingTypes: readonly (Omit<ServingType, 'check'> & { readonly name: string })[]
  readonly dashboards: { readonly endpoints: readonly string[]; readonly templates: readonly string[] } | null
}

type Question =
  | { readonly kind: 'config'; readonly type: string; readonly config: unknown; readonly schema: TableSchema }
  | { readonly kind: 'template'; readonly template: string; readonly columns: readonly OutputColumn[] }

function answerOf(question: Question, { servingTypes, dashboards }: ManifestContext): unknown {
  if (question.kind === 'template') return dashboards?.templates.missing(question.template, question.columns) ?? null
  return servingTypes.get(question.type)?.check?.(question.config, question.schema) ?? []
}

function toWire({ servingTypes, dashboards, ...rest }: ManifestContext): WireContext {
  const types = servingTypes.names.map((name) => {
    const { check: _check, ...type } = servingTypes.get(name) as ServingType
    return { name, ...type }
  })
  return { ...rest, servingTypes: types, dashboards: dashboards ? toWireDashboards(dashboards) : null }
}

function toWireDashboards({ endpoints, templates }: DashboardSupport): WireContext['dashboards'] {
  return { endpoints, templates: templates.names }
}

function fromWire({ servingTypes, dashboards, ...rest }: WireContext, ask: Ask): ManifestContext {
  const types = new Map<string, ServingType>()
  for (const { name, ...type } of servingTypes) {
    const check = (config: unknown, schema: TableSchema) =>
      ask({ kind: 'config', type: name, config, schema }) as readonly ConfigProblem[]
    types.set(name, { ...type, check })
  }
  const missing = (template: string, columns: readonly OutputColumn[]) =>
    ask({ kind: 'template', template, columns }) as string | null
  return {
    ...rest,
    servingTypes: { names: [...types.keys()], get: (name) => types.get(name) },
    dashboards: dashboards && { endpoints: dashboards.endpoints, templates: { names: dashboards.templates, missing } },
  }
}

function filesOf(texts: ManifestTexts): Partial<Record<ManifestName, Uint8Array>> {
  const files: Partial<Record<ManifestName, Uint8Array>> = {}
  for (const name of MANIFEST_NAMES) {
    const text = texts[name]
    if (text !== undefined) files[name] = Buffer.from(text)
  }
  return files
}

function placesIn(texts: ManifestTexts, places: readonly ManifestPlace[]): readonly (Position | null)[] {
  const readings = new Map(
    [...new Set(places.map(({ manifest }) => manifest))].map((name) => {
      const text = texts[name]
      return [name, text === undefined ? null : readYaml(name, Buffer.from(text))]
    }),
  )
  return places.map(({ manifest, path }) => {
    const reading = readings.get(manifest)
    return reading?.ok ? reading.file.locate(path) : null
  })
}
