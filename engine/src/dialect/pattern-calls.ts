/** Texts that are held against a pattern. */
import type { TreeNode } from '../guard/tree.ts'
import { callMacro, text, textOf } from './nodes.ts'
import { asRe2, missingIn } from './patterns.ts'
import type { Rewriting } from './rewriting.ts'

export function ofPattern(
  subject: TreeNode,
  pattern: TreeNode,
  name: 'matches' | 'matches_anycase' | 'substring_matching' | 'substring_group',
  node: TreeNode,
  rewriting: Rewriting,
): TreeNode {
  return callMacro(name, [subject, re2Of(pattern, node, rewriting)], node)
}

export function re2Of(pattern: TreeNode, node: TreeNode, { refused }: Rewriting): TreeNode {
  const plain = textOf(pattern)
  if (plain === null) return pattern
  const missing = missingIn(plain)
  if (missing !== null) throw refused(missing, 'Write the pattern without it, or compare in two steps.')
  return text(asRe2(plain), node)
}
