/** The tokens of a TypeScript or JavaScript source that run: types and comments are left out. */
import { stripTypeScriptTypes } from 'node:module'
import { SyntaxKind } from 'typescript/unstable/ast'
import { createScanner, type Scanner } from 'typescript/unstable/ast/scanner'

export interface Token {
  readonly kind: SyntaxKind
  readonly at: number
  readonly text: string
}

/** Behind these a slash divides, and a sign is one of two operands. */
const ENDS_VALUE = new Set<SyntaxKind>([
  SyntaxKind.Identifier,
  SyntaxKind.PrivateIdentifier,
  SyntaxKind.NumericLiteral,
  SyntaxKind.BigIntLiteral,
  SyntaxKind.StringLiteral,
  SyntaxKind.NoSubstitutionTemplateLiteral,
  SyntaxKind.TemplateTail,
  SyntaxKind.RegularExpressionLiteral,
  SyntaxKind.CloseParenToken,
  SyntaxKind.CloseBracketToken,
  SyntaxKind.CloseBraceToken,
  SyntaxKind.ThisKeyword,
  SyntaxKind.TrueKeyword,
  SyntaxKind.FalseKeyword,
  SyntaxKind.NullKeyword,
])

export function endsValue(token: Token | undefined): boolean {
  return token !== undefined && ENDS_VALUE.has(token.kind)
}

/** Node blanks types and keeps every place. Throws where the source is none. */
export function tokensOf(source: string): readonly Token[] {
  const text = stripTypeScriptTypes(source)
  const scanner = createScanner(true)
  scanner.setText(text)
  const tokens: Token[] = []
  /** For each open brace, whether it belongs to a template. */
  const braces: boolean[] = []
  for (let kind = scanner.scan(); kind !== SyntaxKind.EndOfFile; kind = scanner.scan()) {
    const exact = rescanned(scanner, kind, tokens.at(-1), braces)
    tokens.push({ kind: exact, at: scanner.getTokenStart(), text: scanner.getTokenText() })
  }
  return tokens
}

/** A scanner alone cannot know what a slash, a `>` or the brace that closes a hole of a template are. */
function rescanned(scanner: Scanner, kind: SyntaxKind, before: Token | undefined, braces: boolean[]): SyntaxKind {
  if (kind === SyntaxKind.GreaterThanToken) return scanner.reScanGreaterToken()
  const isSlash = kind === SyntaxKind.SlashToken || kind === SyntaxKind.SlashEqualsToken
  if (isSlash && !endsValue(before)) return scanner.reScanSlashToken()
  if (kind === SyntaxKind.OpenBraceToken) braces.push(false)
  if (kind === SyntaxKind.TemplateHead) braces.push(true)
  if (kind !== SyntaxKind.CloseBraceToken) return kind
  if (braces.pop() !== true) return kind
  const inTemplate = scanner.reScanTemplateToken(false)
  if (inTemplate === SyntaxKind.TemplateMiddle) braces.push(true)
  return inTemplate
}
