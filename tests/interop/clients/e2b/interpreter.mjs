// interpreter.mjs - @e2b/code-interpreter.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { load } from './kit.mjs'

const { Sandbox } = await load('@e2b/code-interpreter')
let sandbox
before(async () => { sandbox = await Sandbox.create() })
after(async () => { await sandbox.kill() })

test('variables are kept, and text is whole in every language', async () => {
  await sandbox.runCode('x = 41')
  const done = await sandbox.runCode("print('€🙂' * 50000)\nx + 1")
  assert.equal(done.text, '42')
  assert.equal(done.logs.stdout.join(''), '€🙂'.repeat(50000) + '\n')
})

test('errors, contexts, timeouts', async () => {
  assert.equal((await sandbox.runCode('1/0')).error.name, 'ZeroDivisionError')
  const context = await sandbox.createCodeContext({ cwd: '/tmp' })
  assert.equal((await sandbox.runCode('import os; os.getcwd()', { context })).text, '/tmp')
  await assert.rejects(sandbox.runCode('while True: pass', { timeoutMs: 1000 }))
  assert.equal((await sandbox.runCode('x')).text, '41')
})

test('values', async () => {
  const [value] = (await sandbox.runCode("display({'text/html': '<b>x</b>', 'text/plain': 'x'}, raw=True)")).results
  assert.deepEqual([value.html, value.text], ['<b>x</b>', 'x'])
})
