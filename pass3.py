"""TRY -> PASS in functions whose label out: only returns; st = error_set + goto out -> TRY or return."""
import re,sys
done=left=0
def fix(m):
    global done,left
    body=m.group(0)
    tail='\nout:\n    return st;\n}\n'
    if not body.endswith(tail): return body
    decl=re.search(r'\n    enum status st(?: = STATUS_OK)?;\n',body)
    if not decl: left+=1; print('  left (decl):',body.split('(')[0].split()[-1]); return body
    rest=body[:-len(tail)].replace(decl.group(0),'\n',1)
    ok_init='= STATUS_OK' in decl.group(0)
    rest=re.sub(r' \{\n( +)st = ([^;]*);\n +goto out;\n +\}\n(?! *else)',r'\n\1return \2;\n',rest)
    rest=re.sub(r'\n( +)st = ((?:error_set|json_error)\([^;]*);\n +goto out;\n',r'\n\1return \2;\n',rest)
    rest=rest.replace('TRY(','PASS(')
    lines=rest.split('\n')
    # last statement at indent 4
    k=len(lines)-1
    while k>0 and not re.match(r'    \S',lines[k]): k-=1
    last='\n'.join(lines[k:])
    prev=lines[k-1]
    ctl=re.match(r'\s*(if|for|while|else)\b',prev) or prev.rstrip().endswith('else')
    mm=re.fullmatch(r'    PASS\((.*)\);(?:\s*/\*.*\*/)?',last,re.S)
    ms=re.fullmatch(r'    st = (.*);',last,re.S)
    if mm and not ctl:
        rest='\n'.join(lines[:k])+'\n    return '+mm.group(1)+';\n}\n'
    elif ms and not ctl:
        rest='\n'.join(lines[:k])+'\n    return '+ms.group(1)+';\n}\n'
    else:
        rest+='\n    return STATUS_OK;\n}\n'
    if not re.search(r'\bst\b',rest):
        rest=re.sub(r'\n( +)goto out;',r'\n\1return STATUS_OK;',rest)
    code=re.sub(r'/\*.*?\*/|"(?:[^"\\]|\\.)*"','',rest,flags=re.S)
    if re.search(r'\bst\b',code) or 'goto out' in code:
        left+=1; print('  left:',body.split('(')[0].split()[-1]); return body
    done+=1
    return rest
for p in sys.argv[1:]:
    s=open(p).read()
    n=re.sub(r'^[a-z][^\n;]*(?:\n[^{}\n]*)*\n\{\n.*?^\}\n',fix,s,flags=re.M|re.S)
    if n!=s: open(p,'w').write(n)
print(done,left)
