/** The tools of agents: what they are called and take, and which operation each is. Their list stays short: models read all of it. */
import { type Static, type TObject, Type } from 'typebox'
import type { TenantCall } from '../../flow.ts'
import type { AgentFindings, AgentTool } from '../../operations/agents/agent-call.ts'
import { MAX_ROWS, MAX_SAMPLE, queryForAgent, STATEMENT_MS, sampleRows } from '../../operations/agents/ask-rows.ts'
import type { AgentsDeps } from '../../operations/agents/deps.ts'
import { explainFailure } from '../../operations/agents/explain-failure.ts'
import { describeProduct, searchProducts } from '../../operations/agents/find-products.ts'
import { trainingSetForAgent } from '../../operations/agents/training-rows.ts'
import { MAX_FEATURES } from '../../operations/queries/training-set.ts'
import { bodyReader } from '../input.ts'
import { TrainingSetOfAgent } from './mcp-training-set.ts'

export interface McpTool {
  readonly name: string
  readonly description: string
  readonly inputSchema: TObject
  /** How many requests of the rate limit it takes; of arguments that nobody has checked yet. */
  requests(given: unknown): number
  /** Throws `validation_failed`. */
  asked(deps: AgentsDeps, given: unknown): AgentTool
}

const closed = { additionalProperties: false } as const
const Name = Type.String({ minLength: 1, maxLength: 500, description: 'namespace.name' })
const NOTHING = { rows: 0, engineMs: 0 } as const

export const MCP_TOOLS: readonly McpTool[] = [
  tool({
    name: 'search_products',
    description: 'Data products that you may read, by words of their names and descriptions.',
    input: Type.Object(
      {
        text: Type.Optional(Type.String({ maxLength: 200, description: 'Words that all occur; absent: lists all.' })),
        after: Type.Optional(Type.String({ maxLength: 500, description: 'Last product of the answer before.' })),
      },
      closed,
    ),
    most: NOTHING,
    work: searchProducts,
  }),
  tool({
    name: 'describe_product',
    description:
      'Columns with types, classes and masks, quality, freshness, contract and lineage of a product. Call before query.',
    input: Type.Object({ product: Name }, closed),
    most: NOTHING,
    work: (deps, call, { product }) => describeProduct(deps, call, product),
  }),
  tool({
    name: 'sample_rows',
    description: `Up to ${MAX_SAMPLE} rows of a product, in no order.`,
    input: Type.Object(
      {
        product: Name,
        columns: Type.Optional(
          Type.Array(Type.String({ minLength: 1, maxLength: 255 }), { minItems: 1, maxItems: 200 }),
        ),
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_SAMPLE })),
      },
      closed,
    ),
    most: { rows: MAX_SAMPLE, engineMs: STATEMENT_MS },
    work: sampleRows,
  }),
  tool({
    name: 'query',
    description: `One read-only SELECT (DuckDB's dialect) over namespace.name; at most ${MAX_ROWS} rows, so aggregate in SQL.`,
    input: Type.Object(
      {
        sql: Type.String({ minLength: 1, maxLength: 20_000 }),
        params: Type.Optional(
          Type.Array(Type.Union([Type.String({ maxLength: 10_000 }), Type.Number(), Type.Boolean(), Type.Null()]), {
            maxItems: 100,
            description: 'For ? in the statement.',
          }),
        ),
      },
      closed,
    ),
    most: { rows: MAX_ROWS, engineMs: STATEMENT_MS },
    work: queryForAgent,
  }),
  tool({
    name: 'make_training_set',
    description: `To each label the newest row of each feature's product no later than the label's time; first ${MAX_ROWS} rows.`,
    input: TrainingSetOfAgent,
    most: { rows: MAX_ROWS, engineMs: STATEMENT_MS },
    requests: featuresIn,
    work: trainingSetForAgent,
  }),
  tool({
    name: 'explain_failure',
    description: 'Why a product or run failed last, and what to do. For developers.',
    input: Type.Object(
      {
        product: Type.Optional(Name),
        run: Type.Optional(
          Type.String({ minLength: 1, maxLength: 100, description: 'Id; absent: the newest failure.' }),
        ),
      },
      closed,
    ),
    most: NOTHING,
    isForDevelopers: true,
    work: explainFailure,
  }),
]

/** As REST counts them. More are refused. */
function featuresIn(given: unknown): number {
  const { features } = (given ?? {}) as { readonly features?: unknown }
  return Array.isArray(features) ? Math.min(features.length, MAX_FEATURES) : 1
}

function tool<Input extends TObject>({
  name,
  description,
  input,
  most,
  isForDevelopers = false,
  requests = () => 1,
  work,
}: {
  readonly name: string
  readonly description: string
  readonly input: Input
  readonly most: AgentTool['most']
  readonly isForDevelopers?: boolean
  readonly requests?: McpTool['requests']
  work(deps: AgentsDeps, call: TenantCall, asked: Static<Input>): Promise<AgentFindings>
}): McpTool {
  const reader = bodyReader(input)
  return {
    name,
    description,
    inputSchema: input,
    requests,
    asked(deps, given) {
      const asked = reader.read(given) as Static<Input>
      return { name, most, isForDevelopers, work: (call) => work(deps, call, asked) }
    },
  }
}
