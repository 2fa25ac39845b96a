/** OpenAPI 3.1 from the route table: TypeBox schemas are JSON Schema already, so they stand in it as they are. */
import type { TObject, TSchema } from 'typebox'
import { ERROR_CODES, type KnownCode } from './codes.ts'
import type { OperationExample, OperationExamples } from './example.ts'
import { offeredTypes } from './media-types.ts'
import { mayLackBody, type ResponseSpec, type Route } from './route.ts'

export interface OpenApiInfo {
  readonly title: string
  readonly version: string
  readonly description?: string
  /** Address that clients use; absent: the one that the document came from. */
  readonly url?: string
}

export type Json = Readonly<Record<string, unknown>>

export interface OpenApiDocument {
  readonly openapi: '3.1.0'
  readonly info: Json
  readonly servers: readonly Json[]
  readonly tags: readonly { readonly name: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Json>>; readonly securitySchemes: Json }
  /** The table of error codes, in full. */
  readonly 'x-error-codes': typeof ERROR_CODES
}

export interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly tags: readonly string[]
  readonly security: readonly Json[]
  readonly parameters: readonly Parameter[]
  readonly requestBody?: Json
  readonly responses: Readonly<Record<string, Json>>
}

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required: boolean
  readonly description?: string
  readonly schema: unknown
  readonly example?: unknown
}

const PROBLEM: Json = {
  type: 'object',
  description: 'RFC 9457. Further members belong to the code.',
  required: ['type', 'title', 'status', 'detail', 'instance', 'code', 'request_id'],
  properties: {
    type: { type: 'string', format: 'uri-reference' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    instance: { type: 'string', format: 'uri-reference' },
    code: { type: 'string', description: 'Stable name of the error.', enum: Object.keys(ERROR_CODES) },
    request_id: { type: 'string' },
    remedy: { type: 'string', description: 'What to do about it.' },
    errors: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          in: { type: 'string', enum: ['body', 'query', 'path', 'header'] },
          pointer: { type: 'string', description: 'RFC 6901.' },
          manifest: { type: 'string' },
          line: { type: 'integer' },
          column: { type: 'integer' },
          path: { type: 'string' },
          message: { type: 'string' },
          hint: { type: 'string' },
        },
      },
    },
  },
  examples: [
    {
      type: '/docs#error-validation_failed',
      title: ERROR_CODES.validation_failed.title,
      status: ERROR_CODES.validation_failed.status,
      detail: 'the request is not valid in one place',
      instance: '/api/v1/products',
      code: 'validation_failed',
      request_id: 'bf78564e-51ba-456d-bf26-514ade56373a',
      remedy: ERROR_CODES.validation_failed.remedy,
      errors: [{ in: 'query', pointer: '/limit', message: 'must be at least 1' }],
    },
  ],
}

const SECURITY_SCHEMES: Json = {
  bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
  applicationKey: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'slk_…',
    description: 'A key of an application, of POST /api/v1/application-keys. Only operations that name it take it.',
  },
}

export function buildOpenApi(
  routes: readonly Route[],
  info: OpenApiInfo,
  examples: OperationExamples = {},
): OpenApiDocument {
  const schemas: Record<string, Json> = { Problem: PROBLEM }
  const paths: Record<string, Record<string, Operation>> = {}
  const shown = routes.filter((route) => route.hidden !== true)
  for (const route of shown) {
    const path = paths[route.path] ?? {}
    path[route.method.toLowerCase()] = operationOf(route, route.example ?? examples[route.name] ?? {}, schemas)
    paths[route.path] = path
  }
  return {
    openapi: '3.1.0',
    info: { title: info.title, version: info.version, ...(info.description && { description: info.description }) },
    servers: [{ url: info.url ?? '/' }],
    tags: [...new Set(shown.flatMap((route) => route.tags))].map((name) => ({ name })),
    paths,
    components: {
      schemas,
      securitySchemes: SECURITY_SCHEMES,
    },
    'x-error-codes': ERROR_CODES,
  }
}

function operationOf(route: Route, example: OperationExample, schemas: Record<string, Json>): Operation {
  const body = requestBodyOf(route, example, schemas)
  return {
    operationId: route.name,
    summary: route.summary,
    ...(route.description && { description: route.description }),
    tags: route.tags,
    security: securityOf(route),
    parameters: [
      ...parametersOf('path', route.params, example.params, schemas),
      ...parametersOf('query', route.query, example.query, schemas),
      ...headersOf(route),
    ],
    ...(body && { requestBody: body }),
    responses: responsesOf(route, example, schemas),
  }
}

function securityOf({ auth, forKeys }: Route): readonly Json[] {
  if (auth === 'none') return []
  return [{ bearer: [] }, ...(forKeys === undefined ? [] : [{ applicationKey: [] }])]
}

function parametersOf(
  place: 'path' | 'query',
  object: TObject | undefined,
  examples: Json | undefined,
  schemas: Record<string, Json>,
): Parameter[] {
  const required = requiredOf(object)
  return Object.entries(object?.properties ?? {}).map(([name, property]) => {
    const { description, ...schema } = hoist(property, schemas) as { readonly description?: string }
    return {
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      ...(description && { description }),
      schema,
      ...exampleOf(examples?.[name]),
    }
  })
}

function exampleOf(example: unknown): { readonly example?: unknown } {
  return example === undefined ? {} : { example }
}

/** What has a default may be left out: it is filled in before the schema is applied. */
function requiredOf(schema: TSchema | undefined): readonly string[] {
  const { required = [], properties = {} } = (schema ?? {}) as {
    readonly required?: readonly string[]
    readonly properties?: Readonly<Record<string, { readonly default?: unknown }>>
  }
  return required.filter((name) => properties[name]?.default === undefined)
}

function headersOf(route: Route): Parameter[] {
  const headers: Parameter[] = []
  if (route.auth === 'tenant' || route.auth === 'any') {
    const description = 'Tenant to act in; for administrators only.'
    headers.push({ name: 'X-Tenant-Id', in: 'header', required: false, description, schema: { type: 'string' } })
  }
  if (route.idempotent === true) {
    const description = 'A request sent again with the same key is answered like the first one, and done once.'
    const schema = { type: 'string', minLength: 1, maxLength: 255 }
    headers.push({ name: 'Idempotency-Key', in: 'header', required: false, description, schema })
  }
  for (const [name, description] of Object.entries(route.requestHeaders ?? {}))
    headers.push({ name, in: 'header', required: false, description, schema: { type: 'string' } })
  return headers
}

function requestBodyOf(route: Route, { body }: OperationExample, schemas: Record<string, Json>): Json | undefined {
  if (route.multipart !== undefined) {
    const { parts, required, maxPartBytes, description } = route.multipart
    const properties = Object.fromEntries(parts.map((name) => [name, { type: 'string', maxLength: maxPartBytes }]))
    const schema = { type: 'object', required, properties, additionalProperties: false }
    const content = { 'multipart/form-data': { schema, ...exampleOf(body) } }
    return { required: true, ...(description && { description }), content }
  }
  if (route.bodyTypes !== undefined) {
    // The table's example is of the first type.
    const content = Object.entries(route.bodyTypes).map(([type, { schema, example }], index) => {
      return [type, { schema: hoist(schema, schemas), ...exampleOf(index === 0 ? body : example) }] as const
    })
    return { required: true, content: Object.fromEntries(content) }
  }
  if (route.body === undefined) return undefined
  const schema = hoist({ ...route.body, required: requiredOf(route.body) } as TSchema, schemas)
  const content = { 'application/json': { schema, ...exampleOf(body) } }
  return { required: !mayLackBody(route), content }
}

function responsesOf(route: Route, example: OperationExample, schemas: Record<string, Json>): Record<string, Json> {
  const responses: Record<string, Json> = {}
  for (const [status, spec] of Object.entries(route.responses)) {
    responses[status] = responseOf(status, spec, example, schemas)
  }
  const byStatus = Object.groupBy(codesOf(route), (code) => String(ERROR_CODES[code].status))
  for (const [status, codes] of Object.entries(byStatus)) {
    if (status in responses) continue
    responses[status] = problemResponse(codes?.map((code) => `\`${code}\``).join(', ') ?? '')
  }
  responses.default = problemResponse('Any other error.')
  return responses
}

/** All that the operation may answer, those of every route too. */
export function codesOf(route: Route): readonly KnownCode[] {
  const codes = new Set<KnownCode>(route.errors)
  if (route.query !== undefined || route.body !== undefined || route.params !== undefined)
    codes.add('validation_failed')
  if (route.auth !== 'none')
    for (const code of ['token_missing', 'token_invalid', 'token_expired'] as const) codes.add(code)
  if (route.forKeys !== undefined && route.forKeys !== 'any') codes.add('key_not_allowed')
  if (route.auth === 'admin' || route.auth === 'operator') codes.add('admin_required')
  if (route.idempotent === true) codes.add('idempotency_in_progress').add('idempotency_key_reused')
  if (route.unlimited !== true) codes.add('rate_limited')
  if (offeredTypes(route).length > 0) codes.add('not_acceptable')
  return [...codes]
}

function responseOf(
  status: string,
  spec: ResponseSpec,
  { answers, also }: OperationExample,
  schemas: Record<string, Json>,
): Json {
  const content: Record<string, Json> = {}
  const example = exampleOf(answers?.[Number(status)])
  const isPlainJson = spec.schema === undefined && spec.also === undefined && status !== '204'
  if (isPlainJson) content['application/json'] = { schema: { type: 'object' }, ...example }
  if (spec.schema !== undefined) content['application/json'] = { schema: hoist(spec.schema, schemas), ...example }
  for (const [type, description] of Object.entries(spec.also ?? {})) {
    content[type] = { schema: { type: 'string', description }, ...exampleOf(also?.[type]) }
  }
  const { usual } = spec
  // What comes where nobody chooses is the first.
  const ordered = usual === undefined ? content : { [usual]: content[usual], ...content }
  return {
    description: spec.description,
    ...(spec.headers && { headers: answerHeaders(spec.headers) }),
    ...(Object.keys(content).length > 0 && { content: ordered }),
  }
}

function answerHeaders(headers: Readonly<Record<string, string>>): Json {
  return Object.fromEntries(
    Object.entries(headers).map(([name, description]) => [name, { description, schema: { type: 'string' } }]),
  )
}

function problemResponse(description: string): Json {
  return { description, content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } } }
}

/** Schemas with an `$id` are written once, under components, and referred to. */
export function hoist(schema: TSchema, schemas: Record<string, Json>): unknown {
  return hoistNode(JSON.parse(JSON.stringify(schema)), schemas)
}

function hoistNode(node: unknown, schemas: Record<string, Json>): unknown {
  if (typeof node !== 'object' || node === null) return node
  if (Array.isArray(node)) return node.map((item) => hoistNode(item, schemas))
  const made = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, hoistNode(value, schemas)]))
  const { $id, ...rest } = made
  // A property may be called $id too; its value is a schema then.
  if (typeof $id !== 'string') return made
  schemas[$id] ??= rest
  return { $ref: `#/components/schemas/${$id}` }
}
