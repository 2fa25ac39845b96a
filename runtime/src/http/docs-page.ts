/** The reference page: HTML made from the OpenAPI document once, without any outside asset. */
import { DOCS_SCRIPT, DOCS_STYLE } from './docs-style.ts'
import type { Json, OpenApiDocument, Operation, Parameter } from './openapi.ts'

/** Stands where the nonce of each answer goes; no text of a document holds it after escaping. */
const NONCE = '<nonce>'
const MAX_DEPTH = 8

interface Listed {
  readonly path: string
  readonly method: string
  readonly operation: Operation
}

interface Media {
  readonly schema?: Schema
  readonly example?: unknown
}

interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly format?: string
  readonly pattern?: string
  readonly default?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
}

/** Gives the page for a nonce. */
export function docsPage(document: OpenApiDocument): (nonce: string) => string {
  const parts = render(document).split(NONCE)
  return (nonce) => parts.join(nonce)
}

function render(document: OpenApiDocument): string {
  const title = text(document.info.title)
  const groups = document.tags.map(({ name }) => ({ name, listed: operationsOf(document, name) }))
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>${title}</title><link rel="icon" href="data:,"><style nonce="${NONCE}">${DOCS_STYLE}</style></head><body>
<nav aria-label="Operations"><h1>${title}</h1><input id="filter" type="search" placeholder="Filter ( / )" aria-label="Filter operations">
${groups.map(navGroup).join('')}<h2>More</h2><a href="#schemas">Schemas</a><a href="#errors">Error codes</a><a href="/openapi.json">openapi.json</a></nav>
<main><header><h1>${title}</h1><p>Version ${text(document.info.version)}. ${text(document.info.description ?? '')}</p></header>
${groups.map(mainGroup).join('')}${schemaSections(document)}${errorSection(document)}</main>
<script nonce="${NONCE}">${DOCS_SCRIPT}</script></body></html>`
}

function operationsOf(document: OpenApiDocument, tag: string): readonly Listed[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, operation]) => operation.tags[0] === tag)
      .map(([method, operation]) => ({ path, method, operation })),
  )
}

function navGroup({ name, listed }: { readonly name: string; readonly listed: readonly Listed[] }): string {
  const links = listed.map(
    (item) =>
      `<a href="#${text(item.operation.operationId)}" data-find="${findable(item)}"><span class="m ${item.method}">${item.method}</span><span>${text(item.operation.summary)}</span></a>`,
  )
  return `<div data-group><h2>${text(name)}</h2>${links.join('')}</div>`
}

function mainGroup({ name, listed }: { readonly name: string; readonly listed: readonly Listed[] }): string {
  return `<div data-group><h2 class="group">${text(name)}</h2>${listed.map(operationSection).join('')}</div>`
}

function findable({ path, method, operation }: Listed): string {
  return text(`${method} ${path} ${operation.summary} ${operation.operationId}`.toLowerCase())
}

function operationSection(item: Listed): string {
  const { path, method, operation } = item
  const access = ['no token', 'bearer token', 'bearer token or application key'][operation.security.length]
  return `<section id="${text(operation.operationId)}" data-find="${findable(item)}">
<h3><span class="m ${method}">${method}</span><code class="path">${text(path)}</code><span class="tag">${access}</span></h3>
<p>${text(operation.summary)}.${operation.description ? ` ${text(operation.description)}` : ''}</p>
${parameterTable(operation.parameters)}${bodyPart(operation.requestBody)}${examplePart(item)}${responsesPart(operation.responses)}</section>`
}

/** The request that the examples of its parts make, as it is sent. */
function examplePart({ path, method, operation }: Listed): string {
  const given = operation.parameters.filter(({ example }) => example !== undefined)
  const inQuery = given.filter((parameter) => parameter.in === 'query')
  const query = inQuery.flatMap(({ name, example }) => [example].flat().map((value) => `${name}=${value}`)).join('&')
  const address = path.replaceAll(/\{(\w+)\}/g, (whole, name) =>
    String(given.find((parameter) => parameter.in === 'path' && parameter.name === name)?.example ?? whole),
  )
  const line = `${method.toUpperCase()} ${address}${query === '' ? '' : `?${query}`}`
  const sent = Object.entries((operation.requestBody?.content ?? {}) as Readonly<Record<string, Media>>)
  const bodies = sent.map(([type, { example }]) => exampleText(example, type.startsWith('multipart/')))
  return `<h4>Example</h4><pre>${text([line, ...bodies].join('\n\n'))}</pre>`
}

/** Of a form, each part under its name. */
function exampleText(example: unknown, isForm = false): string {
  if (typeof example === 'string') return example
  if (!isForm) return JSON.stringify(example, null, 2)
  return Object.entries(example ?? {})
    .map(([name, part]) => `--- ${name}\n${part}`)
    .join('\n')
}

function parameterTable(parameters: readonly Parameter[]): string {
  if (parameters.length === 0) return ''
  const rows = parameters.map(
    ({ name, in: place, required, description, schema }) =>
      `<tr><td><code>${text(name)}</code> ${required ? '<span class="r">required</span>' : ''}</td><td>${place}</td><td><span class="t">${typeOf(schema as Schema)}</span> ${text(description ?? '')}</td></tr>`,
  )
  return `<h4>Parameters</h4><table>${rows.join('')}</table>`
}

function bodyPart(body: Json | undefined): string {
  if (body === undefined) return ''
  return `<h4>Body</h4>${contentPart(body.content as Json)}`
}

function responsesPart(responses: Readonly<Record<string, Json>>): string {
  const rows = Object.entries(responses).map(([status, response]) => {
    const head = `<code>${text(status)}</code> ${code(String(response.description ?? ''))}`
    const content = response.content as Json | undefined
    if (content === undefined || 'application/problem+json' in content) return `<div>${head}</div>`
    return `<details><summary>${head}</summary>${contentPart(content)}</details>`
  })
  return `<h4>Answers</h4>${rows.join('')}`
}

function contentPart(content: Json): string {
  return Object.entries(content)
    .map(([type, media]) => {
      const { schema, example } = media as Media
      const shown = example === undefined ? '' : `<pre>${text(exampleText(example))}</pre>`
      return `<div class="t">${text(type)}</div>${schema === undefined ? '' : schemaTree(schema, 0)}${shown}`
    })
    .join('')
}

function schemaTree(schema: Schema, depth: number): string {
  const inner = schema.type === 'array' && schema.items ? schema.items : schema
  if (inner.properties === undefined || depth > MAX_DEPTH) {
    return depth === 0
      ? `<ul class="s"><li><span class="t">${typeOf(schema)}</span> ${text(schema.description ?? '')}</li></ul>`
      : ''
  }
  const items = Object.entries(inner.properties).map(([name, property]) => {
    const required = inner.required?.includes(name) ? ' <span class="r">required</span>' : ''
    const about = property.description ? ` <span class="d">${text(property.description)}</span>` : ''
    return `<li><code>${text(name)}</code> <span class="t">${typeOf(property)}</span>${required}${about}${schemaTree(property, depth + 1)}</li>`
  })
  return `<ul class="s">${items.join('')}</ul>`
}

/** A type in words, as HTML. */
function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) {
    const name = text(schema.$ref.split('/').at(-1))
    return `<a href="#schema-${name}">${name}</a>`
  }
  if (schema.const !== undefined) return text(JSON.stringify(schema.const))
  if (schema.enum !== undefined) return schema.enum.map((value) => text(JSON.stringify(value))).join(' | ')
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(' | ')
  if (schema.type === 'array') return `list of ${schema.items ? typeOf(schema.items) : 'any'}`
  return text([schema.type ?? 'any', ...constraintsOf(schema)].join(', '))
}

function constraintsOf(schema: Schema): string[] {
  const { format, pattern, minimum, maximum, minLength, maxLength } = schema
  const found: string[] = []
  if (format !== undefined) found.push(format)
  if (pattern !== undefined) found.push(pattern)
  if (minimum !== undefined || maximum !== undefined) found.push(`${minimum ?? ''}…${maximum ?? ''}`)
  if (minLength !== undefined || maxLength !== undefined) found.push(`${minLength ?? 0}…${maxLength ?? ''} characters`)
  if (schema.default !== undefined) found.push(`default ${JSON.stringify(schema.default)}`)
  return found
}

function schemaSections(document: OpenApiDocument): string {
  const sections = Object.entries(document.components.schemas).map(
    ([name, schema]) =>
      `<section id="schema-${text(name)}"><h3><code>${text(name)}</code></h3><p>${text(schema.description ?? '')}</p>${schemaTree(schema as Schema, 0)}</section>`,
  )
  return `<h2 class="group" id="schemas">Schemas</h2>${sections.join('')}`
}

function errorSection(document: OpenApiDocument): string {
  const rows = Object.entries(document['x-error-codes']).map(
    ([name, { status, title, remedy }]) =>
      `<tr id="error-${name}"><td><code>${name}</code></td><td>${status}</td><td>${text(title)}</td><td>${text(remedy)}</td></tr>`,
  )
  return `<h2 class="group" id="errors">Error codes</h2><section><table><tr><th>Code</th><th>Status</th><th>Title</th><th>What to do</th></tr>${rows.join('')}</table></section>`
}

/** Text with \`names\` in code. */
function code(value: string): string {
  return text(value).replace(/`([^`]+)`/g, '<code>$1</code>')
}

function text(value: unknown): string {
  return String(value).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
